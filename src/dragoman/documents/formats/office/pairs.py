"""Fields and ranges of a paragraph as pairs, and a paragraph without what is around its words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragoman.documents.formats.office.items import Item
from dragoman.documents.formats.office.rules import Rules


def pair_ranges(items: Sequence[Item], rules: Rules) -> list[Item]:
    """Items with fields and ranges that begin and end in the same container turned into pairs or protected text."""
    if all(not item.role for item in items):
        return list(items)
    frames: list[list[int]] = [[]]  # items that wait for their end, by container
    found: dict[int, int] = {}
    for index, item in enumerate(items):
        if item.kind == "open":
            frames.append([])
        elif item.kind == "close":
            frames.pop()
        elif item.role in ("begin", "start"):
            frames[-1].append(index)
        elif item.role in ("end", "stop"):
            starts = [i for i in frames[-1] if items[i].name == item.name]
            if starts:
                found[starts[-1]] = index
                while frames[-1].pop() != starts[-1]:  # ranges that cross this one stay points
                    pass
    return list(_paired(items, found, rules, 0, len(items)))


def _paired(items: Sequence[Item], ends: dict[int, int], rules: Rules, index: int, last: int) -> Iterator[Item]:
    while index < last:
        item = items[index]
        end = ends.get(index)
        if end is None:
            yield item
            index += 1
            continue
        inside = items[index + 1 : end]
        if item.role == "start":
            yield item._replace(kind="open", role="")
            yield from _paired(items, ends, rules, index + 1, end)
            yield items[end]._replace(kind="close", role="")
        else:
            separate = next((i for i in range(index + 1, end) if items[i].role == "separate"), end)
            code = "".join(one.code for one in items[index:separate])
            whole = (item.unit[0], items[end].unit[1])
            if rules.is_translated_field(code) and separate < end and is_balanced(items[index + 1 : separate]):
                markup = "".join(one.whole for one in items[index : separate + 1])
                yield Item("open", (item.unit[0], items[separate].unit[1]), markup, name="field")
                yield from _paired(items, ends, rules, separate + 1, end)
                yield Item("close", items[end].unit, items[end].whole, name="field")
            else:
                text = (
                    "".join(one.text for one in inside if one.kind in ("text", "protected")) if separate < end else ""
                )
                markup = "".join(one.whole for one in items[index : end + 1])
                yield Item("protected" if text.strip() else "point", whole, markup, text.strip(), name="field")
        index = end + 1


def is_balanced(items: Sequence[Item]) -> bool:
    """Whether containers that are opened are closed."""
    depth = 0
    for item in items:
        depth += {"open": 1, "close": -1}.get(item.kind, 0)
        if depth < 0:
            return False
    return depth == 0


def trim(items: Sequence[Item]) -> list[Item]:
    """Items without those before the first and after the last word, and without pairs around all of them."""
    if items and items[0].has_content and items[-1].has_content:
        return list(items)
    groups: list[list[Item]] = []
    end = -1
    for item in items:
        if groups and item.unit[0] < end:
            groups[-1].append(item)
        else:
            groups.append([item])
        if item.unit[1] > end:
            end = item.unit[1]
    first, last = 0, len(groups)

    def outer(group: list[Item]) -> bool:
        return not any(item.has_content for item in group) and is_balanced(group)

    while first < last:
        if outer(groups[first]):
            first += 1
        elif outer(groups[last - 1]):
            last -= 1
        elif len(groups[first]) == 1 and groups[first][0].kind == "open":
            close = _closing(groups, first)
            if close == last - 1 and len(groups[close]) == 1:
                first, last = first + 1, close
            elif close is not None and not any(item.has_content for one in groups[first:close] for item in one):
                first = close + 1
            else:
                break
        else:
            break
    return [item for group in groups[first:last] for item in group]


def _closing(groups: Sequence[Sequence[Item]], first: int) -> int | None:
    """The group that closes the container that the first group opens."""
    depth = 0
    for index in range(first, len(groups)):
        depth += sum({"open": 1, "close": -1}.get(item.kind, 0) for item in groups[index])
        if depth == 0:
            return index
    return None
