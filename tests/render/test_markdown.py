"""The markdown report: below GitHub's limit, valid, inert to user text, and with the sentence to paste."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt

from compilescope.render.markdown.page import LIMIT, Page, code, prose
from compilescope.render.registry import render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compilescope.record import Recording

ALL = ("clean", "flux", "nothing", "limit_hit", "faulty", "big", "hostile")


class Tags(HTMLParser):
    """Checks that tags close in order, and keeps which were seen."""

    def __init__(self) -> None:
        """Start with no tag open."""
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Note an opening tag."""
        self.seen.add(tag)
        if tag != "hr":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Note a closing tag, which must be the last one opened."""
        assert self.open.pop() == tag


def rows(page: str) -> Iterator[tuple[int, int]]:
    """Yield for each row of each table how many cells it has, and how many its header."""
    header = cells = 0
    written = page.split("\n")
    for token in MarkdownIt("commonmark").enable("table").parse(page):
        if token.type == "tr_open" and token.map is not None:
            # The parser fills up and cuts off rows to the header's length: count what was written.
            cells = written[token.map[0]].count(" | ") + 1
        elif token.type == "th_open":
            header = cells
        elif token.type == "tr_close":
            yield cells, header


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("verbose", [False, True])
def test_the_page_is_valid_and_below_the_limit(name: str, verbose: bool, request: pytest.FixtureRequest) -> None:  # noqa: FBT001
    page = render(request.getfixturevalue(name), "markdown", verbose=verbose)
    assert len(page) < LIMIT
    # Every line that starts as a row of a table is one: no table is cut in half or broken by user text.
    tags = Tags()
    tags.feed(MarkdownIt("commonmark").enable("table").render(page))
    assert tags.open == []
    written = [line for line in re.sub(r"(?s)<pre>.*?</pre>", "", page).split("\n") if line.startswith("| ")]
    assert all(line.endswith(" |") for line in written)
    read = list(rows(page))
    assert len(read) == len(written)
    assert all(cells == header for cells, header in read)


def test_user_text_stays_text(hostile: Recording) -> None:
    html = MarkdownIt("commonmark").enable("table").render(render(hostile, "markdown"))
    tags = Tags()
    tags.feed(html)
    assert "b" not in tags.seen
    assert "[red]d[/red]" in html
    assert "\x1b" not in html


def test_no_mention_and_no_issue_link_comes_alive() -> None:
    assert prose("@team broke #12") == "@<!-- -->team broke #<!-- -->12"
    assert code("@torch.compile") == "`@torch.compile`"
    assert code("a|`b`") == "<code>a&#124;&#96;b&#96;</code>"


def test_a_clean_run_gives_the_sentence_to_paste(clean: Recording) -> None:
    page = render(clean, "markdown")
    assert (
        "2 graphs of 2 code objects, no recompile, no graph break, no eager fallback on cpu, "
        "torch 2.13.0+cpu, Python 3.11.7." in page
    )


def test_a_faulty_run_gives_no_sentence_to_paste(faulty: Recording, nothing: Recording) -> None:
    assert "Not valid as it stands (raised): " in render(faulty, "markdown")
    assert "Not valid as it stands (nothing compiled): nothing was compiled" in render(nothing, "markdown")


def test_what_was_cut_is_said(big: Recording) -> None:
    page = render(big, "markdown")
    last = page.strip().splitlines()[-1]
    assert last.startswith("Left out to stay below GitHub's limit of 65,536 characters: ")
    for noun in ("finding", "cause", "graph break", "eager fallback", "compilation"):
        assert f"more {noun}s" in last


def test_a_table_keeps_whole_rows_only() -> None:
    page = Page()
    page.table(("A", "B:"), [("x" * 30, "1")] * 10, noun="row", share=120)
    text = str(page)
    assert text.splitlines()[:2] == ["| A | B |", "|---|---:|"]
    assert text.count("x" * 30) == 2
    assert "8 more rows" in text


def test_a_page_stays_below_the_limit_whatever_is_added() -> None:
    page = Page()
    for number in range(200):
        page.add("y" * 1_000, name=f"block {number}")
    assert len(str(page)) < LIMIT
