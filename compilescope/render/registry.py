"""The formats that a recording can be rendered in, by name."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from compilescope.errors import UsageError
from compilescope.render.github import GithubRenderer
from compilescope.render.gitlab import GitlabRenderer
from compilescope.render.json import JsonRenderer
from compilescope.render.jsonlines import JsonLinesRenderer
from compilescope.render.junit import JunitRenderer
from compilescope.render.markdown.report import MarkdownRenderer
from compilescope.render.options import Options
from compilescope.render.sarif import SarifRenderer
from compilescope.render.text.report import TextRenderer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compilescope.record import Recording


class Renderer(Protocol):
    """One output format."""

    @property
    def name(self) -> str:
        """What the user calls it on the command line."""

    @property
    def extension(self) -> str:
        """The ending of its files, with the dot."""

    def render(self, recording: Recording, options: Options) -> str:
        """Return the whole document, with a final newline."""


FORMATS: Final[Mapping[str, Renderer]] = MappingProxyType(
    {
        renderer.name: renderer
        for renderer in (
            TextRenderer(),
            JsonRenderer(),
            JsonLinesRenderer(),
            MarkdownRenderer(),
            GithubRenderer(),
            GitlabRenderer(),
            JunitRenderer(),
            SarifRenderer(),
        )
    }
)
"""Every format by its name."""


def render(
    recording: Recording,
    format: str,  # noqa: A002 (the word of the command line)
    *,
    verbose: bool = False,
    color: bool = False,
    width: int | None = None,
) -> str:
    """Render ``recording``.

    Args:
        recording: what to show.
        format: a name in :data:`FORMATS`.
        verbose: show everything instead of what fits one screen.
        color: write terminal colours, where the format has them.
        width: columns of the page, where the format has a width.

    Raises:
        UsageError: there is no such format.
    """
    renderer = FORMATS.get(format)
    if renderer is None:
        msg = f"There is no format {format!r}; the formats are {', '.join(sorted(FORMATS))}."
        raise UsageError(msg)
    return renderer.render(recording, Options(verbose=verbose, color=color, width=width))
