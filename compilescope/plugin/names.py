"""The names that a test suite sees: the fixture, the options, the settings and the marks.

Every pytest run of an environment loads this file, so it imports nothing.
"""

HOOKS = "compilescope.pytest_plugin"
"""The module that pytest loads."""
FIXTURE = "compilescope"
REPORT = "compilescope_report"
BASELINE = "compilescope_baseline"
UPDATE = "compilescope_update_baseline"
ISOLATE = "compilescope_isolate"
OWN = "compilescope_own"
MARKS = {
    "no_shape_recompile": "(target, ..., *, broken=None): the targets are compiled, and no change of shapes alone "
    "recompiles them.",
    "compile_budget": "(target, ..., *, compiles=, recompiles=, kinds={}, graph_breaks=, guards=, ..., broken=None): "
    "the test stays within these limits.",
    "max_graph_breaks": "(n, *, own=None, broken=None): at most n graph breaks.",
}
"""Every mark, and what ``pytest --markers`` says of it."""
