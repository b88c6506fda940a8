"""Fields and ranges of a paragraph as pairs, and a paragraph without what is around its words."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

from dragoman.documents.formats.office.items import Item
from dragoman.documents.formats.office.rules import Rules


def pair_ranges(items: Sequence[Item], rules: Rules) -> list[Item]:
    """Items with fields and ranges that begin and end in the same container turned into pairs or protected text."""
    if all(not item.role for item in items):
        return list(items)
    frames: list[list[int]] = [[]]  # items that wait for their end, by container
    waiting = [Counter[str]()]  # their names
    ends: dict[int, int] = {}
    for index, item in enumerate(items):
        if item.kind == "open":
            frames.append([])
            waiting.append(Counter())
        elif item.kind == "close":
            frames.pop()
            waiting.pop()
        elif item.role in ("begin", "start"):
            frames[-1].append(index)
            waiting[-1][item.name] += 1
        elif item.role in ("end", "stop") and waiting[-1][item.name]:
            name = ""
            while name != item.name:  # ranges that cross this one stay points
                start = frames[-1].pop()
                name = items[start].name
                waiting[-1][name] -= 1
            ends[start] = index
    return list(_paired(items, ends, rules))


def _paired(items: Sequence[Item], ends: dict[int, int], rules: Rules) -> Iterator[Item]:
    closing: dict[int, Item] = {}
    index = 0
    while index < len(items):
        item, end = items[index], ends.get(index)
        index += 1
        if end is None:
            yield closing.get(index - 1, item)
        elif item.role == "start":
            yield item._replace(kind="open", role="")
            closing[end] = items[end]._replace(kind="close", role="")
        else:
            first, last = index - 1, items[end]
            separate = next((i for i in range(index, end) if items[i].role == "separate"), end)
            code = "".join(one.code for one in items[first:separate])
            result = "".join(one.text for one in items[separate:end])
            if rules.is_translated_field(code, result) and separate < end and is_balanced(items[index:separate]):
                markup = "".join(one.whole for one in items[first : separate + 1])
                yield Item("open", (item.unit[0], items[separate].unit[1]), markup, name="field")
                closing[end] = Item("close", last.unit, last.whole, name="field")
                index = separate + 1
            else:
                inside = items[index:end] if separate < end else ()
                text = "".join(one.text for one in inside if one.kind in ("text", "protected")).strip()
                markup = "".join(one.whole for one in items[first : end + 1])
                whole = item.unit[0], last.unit[1]
                yield Item("protected" if text else "point", whole, markup, text, name="field")
                index = end + 1


def change_of_depth(items: Sequence[Item]) -> int:
    """How many containers are opened and not closed."""
    return sum({"open": 1, "close": -1}.get(item.kind, 0) for item in items)


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
    depths = [0, *accumulate(map(change_of_depth, groups))]
    places = defaultdict[int, list[int]](list)  # the groups after which each depth is reached
    for place, depth in enumerate(depths[1:]):
        places[depth].append(place)

    def outer(group: list[Item]) -> bool:
        return not any(item.has_content for item in group) and is_balanced(group)

    while first < last:
        if outer(groups[first]):
            first += 1
        elif outer(groups[last - 1]):
            last -= 1
        elif len(groups[first]) == 1 and groups[first][0].kind == "open":
            same = places[depths[first]]
            following = bisect_left(same, first)
            close = same[following] if following < len(same) else None  # the group that closes the container
            if close == last - 1 and len(groups[close]) == 1:
                first, last = first + 1, close
            elif close is not None and not any(item.has_content for one in groups[first : close + 1] for item in one):
                first = close + 1
            else:
                break
        else:
            break
    return [item for group in groups[first:last] for item in group]
