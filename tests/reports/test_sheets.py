"""Tables to read, letter by letter: groups of columns, blocks of rows, marks."""

from __future__ import annotations

from longshot.reports import Sheet, SheetCell, to_latex
from longshot.reports.tables import to_markdown

SHEET = Sheet(
    "Few & many",
    [("", "Method"), ("", "Net"), ("5-way", "top-1"), ("5-way", "top-5"), ("9-way", "top-1")],
    [
        [[SheetCell("a_b"), SheetCell("n"), SheetCell("1.0", "best"), SheetCell("2.0"), SheetCell("3.0")]],
        [[SheetCell("c"), SheetCell("n"), SheetCell("0.5"), SheetCell("2.0", "tied"), SheetCell("–")]],
    ],
    note="± 1",
)
PLAIN = Sheet("", [("", "Method"), ("", "Mean")], [[[SheetCell("a"), SheetCell("1")]]], labels=1)


def test_markdown() -> None:
    assert to_markdown([SHEET, PLAIN]).splitlines() == [
        "**Few & many**",
        "",
        "| Method | Net | 5-way: top-1 | 5-way: top-5 | 9-way: top-1 |",
        "| :--- | :--- | ---: | ---: | ---: |",
        "| a_b | n | **1.0** | 2.0 | 3.0 |",
        "| c | n | 0.5 | **2.0** = | – |",
        "",
        "± 1",
        "",
        "| Method | Mean |",
        "| :--- | ---: |",
        "| a | 1 |",
    ]


def test_latex() -> None:
    assert to_latex([SHEET, PLAIN]).splitlines() == [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        r"\small",
        r"\caption{Few \& many. $\pm$ 1}",
        r"\begin{tabular}{llrrr}",
        r"\toprule",
        r"& & \multicolumn{2}{c}{5{-}way} & \multicolumn{1}{c}{9{-}way} \\",
        r"\cmidrule(lr){3-4}\cmidrule(lr){5-5}",
        r"Method & Net & top{-}1 & top{-}5 & top{-}1 \\",
        r"\midrule",
        r"a\_b & n & \textbf{1.0} & 2.0 & 3.0 \\",
        r"\midrule",
        r"c & n & 0.5 & \textbf{2.0}\rlap{$^{=}$} & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
        r"\begin{table}",
        r"\centering",
        r"\small",
        r"\caption{}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"Method & Mean \\",
        r"\midrule",
        r"a & 1 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
