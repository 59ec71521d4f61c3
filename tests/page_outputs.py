"""What a page shows against what was printed: words exactly, numbers within a tolerance."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ANYTHING = re.compile(r"…|\.\.\.")
_RULE = re.compile(r"[─━═\-]{3,}")
_HASH = r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\b"
_NUMBER = r"(?<![\w.])[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?"
_UNIT = r"(?= ?(?:ms|s|min|h|seconds?|minutes?|hours?|[MGk]B/s|images/s|tasks/s)\b)"
_DATE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?"
_TOKEN = re.compile(
    rf"(?P<any>…|\.\.\.)|(?P<date>{_DATE})|(?P<hash>{_HASH})|(?P<time>{_NUMBER}{_UNIT})|(?P<number>{_NUMBER})"
)
_TOO_LONG = 60  # lines of a failure's message


def differences(shown: str, printed: str, percent: float = 2.0, words_only: bool = False) -> str:
    """Empty where the two agree; else what is shown and what was printed."""
    expected, actual = _lines(shown), _lines(printed)
    if not expected or _match(expected, actual, percent, words_only):
        return ""
    first = next(
        (number for number, (shown_line, printed_line) in enumerate(zip(expected, actual, strict=False))
         if not _line_matches(shown_line, printed_line, percent, words_only)),
        min(len(expected), len(actual)),
    )  # fmt: skip
    at = f"first at line {first + 1} of {len(expected)} shown, {len(actual)} printed"
    return f"{at}\n--- shown\n{_cut(expected)}\n--- printed\n{_cut(actual)}"


def _cut(lines: list[str]) -> str:
    return "\n".join(lines[:_TOO_LONG])


def _lines(text: str) -> list[str]:
    """Without empty lines, runs of spaces as one, rules of any length alike."""
    flat = (_RULE.sub("---", " ".join(line.split())) for line in text.split("\n"))
    return [line for line in flat if line]


def _match(shown: list[str], printed: list[str], percent: float, words_only: bool) -> bool:
    """Line by line; a line that is only ``…`` stands for any number of lines."""
    reached = {0}  # how many printed lines may be behind us
    for line in shown:
        if _ANYTHING.fullmatch(line):
            reached = set(range(min(reached), len(printed) + 1))
        else:
            reached = {
                at + 1
                for at in reached
                if at < len(printed) and _line_matches(line, printed[at], percent, words_only)
            }
        if not reached:
            return False
    return len(printed) in reached


def _line_matches(shown: str, printed: str, percent: float, words_only: bool) -> bool:
    pattern, numbers, end = "", [], 0
    for token in _TOKEN.finditer(shown):
        pattern += re.escape(shown[end : token.start()])
        end = token.end()
        if token["any"]:
            pattern += ".*"
        elif token["number"]:
            numbers.append(token["number"])
            pattern += f"({_NUMBER})"
        else:  # a moment, a hash or a time: never the same twice, or said by words elsewhere
            pattern += {"date": _DATE, "hash": _HASH, "time": _NUMBER}[str(token.lastgroup)]
    match = re.fullmatch(pattern + re.escape(shown[end:]), printed)
    return match is not None and (words_only or _near(zip(numbers, match.groups(), strict=True), percent))


def _near(pairs: Iterable[tuple[str, str]], percent: float) -> bool:
    for shown, printed in pairs:
        expected, actual = (float(text.replace(",", "").replace("−", "-")) for text in (shown, printed))
        mantissa = shown.partition("e")[0]
        decimals = len(mantissa.partition(".")[2])
        allowed = abs(expected) * percent / 100
        if decimals and "e" not in shown:  # a count has no last digit that may differ
            allowed = max(allowed, 0.02, 1.01 * 10**-decimals)
        if abs(expected - actual) > allowed:
            return False
    return True
