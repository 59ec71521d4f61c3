"""Rules over the attributes of images: ``viewpoint in (front, back) and not blur``.

    rule       := and-rule ("or" and-rule)*
    and-rule   := not-rule ("and" not-rule)*
    not-rule   := "not" not-rule | "(" rule ")" | test
    test       := name                                   an attribute that holds true or false
                | name ("==" | "!=" | "<" | "<=" | ">" | ">=") value
                | name ["not"] "in" "(" value ("," value)* ")"
    value      := number | true | false | word | "text in quotes"

A rule is read by the small parser below and never executed as code. An image whose attribute is missing fulfils
neither a test nor its opposite.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from longshot.base import UserError

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"[^"]*"|'[^']*')
          |(?P<sign><=|>=|==|!=|=|<|>|\(|\)|,)
          |(?P<word>[^\s<>=!(),"']+))""",
    re.VERBOSE,
)
_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_WORDS = ("and", "or", "not", "in")
_SHOWN = 12  # values listed in a message


@dataclass(frozen=True)
class _Token:
    kind: str  # text, sign, word or end
    value: str


def rows_mask(text: str, table: pa.Table, noun: str, example: str) -> NDArray[np.bool_]:
    """Which of the N rows of any table fulfil a rule over its columns, [N]; ``noun`` says what a row is, as "task"."""
    parser = _Parser(text, table, f"The list of {noun}s", "column", noun, example)
    mask: NDArray[np.bool_] = pc.fill_null(parser.whole(), False).to_numpy(zero_copy_only=False)
    return mask


def rule_mask(text: str, attributes: pa.Table | None, dataset: str) -> NDArray[np.bool_]:
    """Which of the N images fulfil the rule, [N]. ``dataset`` is the name that messages use."""
    if attributes is None or not attributes.num_columns:
        raise UserError(
            f"Dataset '{dataset}' has no attributes, so the rule '{text}' cannot choose among its images; add "
            "columns to its table or an attributes file beside it."
        )
    example = "viewpoint in (front, back) and clutter > 3"
    parser = _Parser(text, attributes, f"Dataset '{dataset}'", "attribute", "image", example)
    mask: NDArray[np.bool_] = pc.fill_null(parser.whole(), False).to_numpy(zero_copy_only=False)
    return mask


class _Parser:
    """Recursive descent that computes on the way: each method returns a boolean Arrow array [N]."""

    def __init__(
        self, text: str, attributes: pa.Table, owner: str, column_word: str, noun: str, example: str
    ) -> None:
        self.text, self.attributes, self.owner = text, attributes, owner
        self.column_word, self.noun, self.example = column_word, noun, example
        self.tokens = self._split(text)
        self.at = 0

    def whole(self) -> Any:
        mask = self._or()
        if self._peek().kind != "end":
            raise self._wrong(f"'{self._peek().value}' is one too many")
        return mask

    def _or(self) -> Any:
        mask = self._and()
        while self._take("or"):
            mask = pc.or_kleene(mask, self._and())
        return mask

    def _and(self) -> Any:
        mask = self._not()
        while self._take("and"):
            mask = pc.and_kleene(mask, self._not())
        return mask

    def _not(self) -> Any:
        if self._take("not"):
            return pc.invert(self._not())
        if self._take("("):
            mask = self._or()
            self._need(")")
            return mask
        return self._test()

    def _test(self) -> Any:
        name = self._next("an attribute")
        column = self._column(name)
        sign = self._peek()
        if sign.kind == "sign" and (sign.value in _TESTS or sign.value == "="):
            self.at += 1
            return self._compare(name, column, "==" if sign.value == "=" else sign.value)
        turned = self._take("not")
        if self._take("in"):
            self._need("(")
            values = [self._value(name, column)]
            while self._take(","):
                values.append(self._value(name, column))
            self._need(")")
            mask = pc.equal(column, values[0])
            for value in values[1:]:
                mask = pc.or_kleene(mask, pc.equal(column, value))
            return pc.invert(mask) if turned else mask
        if turned:
            raise self._wrong("after 'not' there should be 'in (…)'")
        if not pa.types.is_boolean(column.type):
            raise self._wrong(f"'{name}' is not true or false but {_kind(column)}: compare it with something")
        return column

    def _compare(self, name: str, column: Any, sign: str) -> Any:
        value = self._value(name, column)
        if sign not in ("==", "!=") and not _is_number(column):
            raise self._wrong(
                f"'{name}' holds {_kind(column)}, which '{sign}' cannot order: use == or in (…)"
            )
        return _TESTS[sign](column, value)

    def _value(self, name: str, column: Any) -> pa.Scalar:
        """The next token as a value of the column's type."""
        token = self._peek()
        raw = self._next("a value")
        text = raw[1:-1] if token.kind == "text" else raw
        if pa.types.is_boolean(column.type):
            if text.lower() not in ("true", "false"):
                raise self._wrong(f"'{name}' is true or false, and '{text}' is neither")
            return pa.scalar(text.lower() == "true")
        if _is_number(column):
            try:
                return pa.scalar(float(text))
            except ValueError:
                raise self._wrong(f"'{name}' holds numbers, and '{text}' is none") from None
        words = sorted(value for value in pc.unique(column).to_pylist() if value is not None)
        if text not in words:
            near = get_close_matches(text, words, n=1)
            hint = f"did you mean '{near[0]}'" if near else f"it holds {_listed(words)}"
            raise self._wrong(f"no {self.noun} has the {name} '{text}': {hint}")
        return pa.scalar(text)

    def _column(self, name: str) -> Any:
        if name not in self.attributes.column_names:
            raise UserError(
                f"{self.owner} has no {self.column_word} '{name}' (in the rule '{self.text}'); it has: "
                f"{', '.join(self.attributes.column_names)}."
            )
        column = self.attributes.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column if _is_number(column) or pa.types.is_boolean(column.type) else column.cast(pa.string())

    def _peek(self) -> _Token:
        return self.tokens[self.at]

    def _next(self, expected: str) -> str:
        token = self._peek()
        if token.kind not in ("word", "text") or (token.kind == "word" and token.value in _WORDS):
            raise self._wrong(
                f"{expected} is missing" + (f" before '{token.value}'" if token.value else " at the end")
            )
        self.at += 1
        return token.value if expected == "a value" or token.kind == "word" else token.value[1:-1]

    def _take(self, value: str) -> bool:
        if self._peek().kind in ("word", "sign") and self._peek().value == value:
            self.at += 1
            return True
        return False

    def _need(self, value: str) -> None:
        if not self._take(value):
            raise self._wrong(f"'{value}' is missing")

    def _split(self, text: str) -> list[_Token]:
        tokens, at = [], 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise self._wrong(f"'{text[at:].strip()[:1]}' has no meaning there")
            tokens.append(_Token(match.lastgroup, match.group(match.lastgroup)))
            at = match.end()
        return [*tokens, _Token("end", "")]

    def _wrong(self, why: str) -> UserError:
        return UserError(
            f"The rule '{self.text}' cannot be used: {why}. A rule looks like \"{self.example}\"."
        )


def _is_number(column: Any) -> bool:
    return bool(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))


def _kind(column: Any) -> str:
    return (
        "numbers" if _is_number(column) else "true or false" if pa.types.is_boolean(column.type) else "words"
    )


def _listed(words: list[str]) -> str:
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more
