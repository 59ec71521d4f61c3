"""The comparison of outputs and the reading of blocks, on planted pages."""

from __future__ import annotations

import pytest
from tools.check_docs import misspelt, paragraphs, prose, wide_lines
from tools.doc_blocks import Block, blocks
from tools.wrap_docs import wrapped

from page_outputs import differences
from page_runs import _smaller

AGREE = [
    ("accuracy 77.89 ± 1.28", "accuracy   77.80 ± 1.29"),
    ("1,204 images", "1,210 images"),
    ("took 3.2 s on a thread", "took 41.0 s on a thread"),
    ("hash 3f786850e387550f", "hash aab86850e387550f"),
    ("saved … tasks", "saved 600 of 600 tasks"),
    ("first\n…\nlast", "first\n2\n3\nlast"),
    ("a  b\n────────\n\n", "a b\n───\n"),
    ("p = 1.0e-05", "p = 1.01e-05"),
]
DIFFER = [
    ("accuracy 77.89 ± 1.28", "accuracy 75.10 ± 1.28"),
    ("5 classes", "6 classes"),
    ("efficientnet-lite0", "efficientnet-lite1"),
    ("5 classes", "5 images"),
    ("one line", "one line\nand another"),
    ("first\n…\nlast", "first\n2\n3"),
    ("share 0.50", "share 0.60"),
    ("-1.5 points", "1.5 points"),
]


@pytest.mark.parametrize(("shown", "printed"), AGREE)
def test_outputs_that_agree(shown: str, printed: str) -> None:
    assert differences(shown, printed) == ""


@pytest.mark.parametrize(("shown", "printed"), DIFFER)
def test_outputs_that_differ(shown: str, printed: str) -> None:
    assert "--- printed" in differences(shown, printed)


def test_tolerance_and_words() -> None:
    assert differences("rate 100.0", "rate 104.0", percent=5) == ""
    assert differences("rate 100.0", "rate 106.0", percent=5)
    assert differences("rate 100.0", "rate 1.0", words_only=True) == ""
    assert differences("rate 100.0", "price 1.0", words_only=True)


PAGE = """# A page

For nobody.

<!-- needs: my_photos as birds -->
<!-- setup
echo made > made.txt
-->
```console
$ cat made.txt
made
$ longshot sample toybox \\
    --tasks 4
```

<!-- not-run: needs a GPU -->

```python
print(1)
```

```output
1
```

<!-- long: trains for minutes -->
This sentence parts the mark from the block.

```python mine.py
STEPS = 200
```

```yaml
# own/settings.yaml
a: 1
```
"""


def test_the_blocks_of_a_page() -> None:
    needs, setup, console, marked, program, settings = blocks(PAGE)
    assert (needs.kind, needs.text) == ("needs", "my_photos as birds")
    assert (setup.kind, setup.text) == ("setup", "echo made > made.txt")
    assert list(console.commands()) == [("cat made.txt", "made"), ("longshot sample toybox --tasks 4", "")]
    assert (marked.marks, marked.output) == ({"not-run": "needs a GPU"}, "1")
    assert (program.name, program.marks, program.runs) == ("mine.py", {}, False)
    assert settings.name == "own/settings.yaml"


def test_a_mark_that_means_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="'not-rnu:' means nothing"):
        blocks("<!-- not-rnu: a slip -->\n```console\n$ true\n```\n")


def test_smaller_settings() -> None:
    block = Block("console", "", 1, marks={"small": "steps=4 tasks=6"})
    text = "longshot train a --steps 200 --set tasks=300\nSTEPS = 200\nsteps: 30\nmy-steps 20"
    smaller = "longshot train a --steps 4 --set tasks=6\nSTEPS = 200\nsteps: 4\nmy-steps 20"
    assert _smaller(text, block.marks) == smaller


def test_words_per_sentence_by_hand() -> None:
    text = "# Title here\n\nOne two three. Four five, `a b c` seven!\n\n- an item of five words\n\n| a | table |\n"
    assert paragraphs(text) == ["One two three. Four five, `a b c` seven!", "an item of five words"]
    measured = prose(text)
    assert (measured.sentences, measured.words) == (3, 3 + 4 + 5)


def test_wide_lines_are_those_outside_blocks() -> None:
    text = (
        "x" * 141 + "\n```text\n" + "y" * 200 + "\n```\n" + "z" * 140 + "\n|" + "r" * 239 + "\n|" + "r" * 240
    )
    assert wide_lines(text) == [(1, 141), (7, 241)]


def test_wrapping_leaves_everything_but_long_prose() -> None:
    long = " ".join(["word"] * 40)
    page = (
        f"# {long}\n\n{long}\nmore\n\n- {long}\n  end\n\n```text\n{long}\n```\n\n| {long} |\n\nshort\nlines"
    )
    wrapped_page = wrapped(page)
    assert wide_lines(wrapped_page.replace(f"# {long}", "")) == []
    assert wrapped_page.split() == page.split()
    for unchanged in (
        f"# {long}\n",
        f"```text\n{long}\n```",
        f"| {long} |",
        "short\nlines",
        "\n- word",
        "\n  word",
    ):
        assert unchanged in wrapped_page


def test_a_row_of_results_is_as_wide_as_it_must_be() -> None:
    assert wide_lines("| " + " | ".join(["12.34 ± 0.56"] * 30) + " |") == []


def test_a_misspelt_word_is_named(tmp_path) -> None:
    page = tmp_path / "page.md"
    wrong = "rec" + "ieve"  # in two parts, for this file is looked at, too
    page.write_text(f"We {wrong} images.\n")
    (line,) = misspelt([page])
    assert f"{wrong} ==> receive" in line
