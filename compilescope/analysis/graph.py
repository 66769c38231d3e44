"""The recording as a graph, for questions that no report answers. Pure; imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx as nx

if TYPE_CHECKING:
    from compilescope.record import Recording


def to_graph(recording: Recording) -> nx.MultiDiGraph[str]:
    """Return a recording as a directed graph.

    Nodes are named by ids and carry a ``type``:

    * ``code``: a code object, with its ``qualname``;
    * ``entry``: a compilation that made a cache entry, with its ``point``;
    * ``break``: a graph-break site, with its ``kind`` and ``events``.

    Edges carry a ``type`` too:

    * ``resumes``: from a resume function to the code object that it continues;
    * ``compiled``: from a code object to each of its entries;
    * ``missed``: from an entry to the closest older one, with the ``kinds`` and ``sources`` of the causes;
    * ``breaks``: from a code object to the sites where its tracing stopped.
    """
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    for code in recording.code_objects:
        graph.add_node(code.id, type="code", qualname=code.qualname)
        if code.resumes is not None:
            graph.add_edge(code.id, code.resumes, type="resumes")
    for entry in recording.compiled:
        graph.add_node(entry.id, type="entry", point=entry.point)
        graph.add_edge(entry.code, entry.id, type="compiled")
        if entry.recompile is not None and entry.recompile.closest is not None:
            causes = entry.recompile.causes
            graph.add_edge(
                entry.id,
                entry.recompile.closest,
                type="missed",
                kinds=tuple(cause.kind for cause in causes),
                sources=tuple(cause.source for cause in causes),
            )
    for site in recording.graph_breaks:
        name = f"{site.file}:{site.line}"
        graph.add_node(name, type="break", kind=site.kind, events=site.events)
        graph.add_edge(site.code, name, type="breaks")
    return graph
