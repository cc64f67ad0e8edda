"""A launch schedule as lines for people and as a picture."""

from __future__ import annotations

from html import escape

from difftest.triage.schedule import Launch, LaunchSchedule, Needless, Race

_ROW, _COLUMN, _WIDTH, _HEIGHT, _LEFT, _TOP = 64, 190, 150, 40, 20, 46


def schedule_lines(schedule: LaunchSchedule) -> list[str]:
    """Launches with what they touch, then races, needless serialisation, and what could run at once."""
    lines: list[str] = []
    for launch in schedule.launches:
        after = f"after {_list(launch.after)}" if launch.after else "after nothing"
        lines.append(f"  {launch.number}. {launch.name} (line {launch.line}), {after}")
        lines += [f"       {a.how:6} {a.buffer} ({a.size} bytes)" for a in launch.accesses]
    lines += [f"  RACE: {race_line(race)}" for race in schedule.races]
    lines += [f"  needless: {needless_line(needless)}" for needless in schedule.needless]
    if schedule.dropped:
        lines.append(f"  {schedule.dropped} more operations are not shown")
    actual, possible = schedule.actual, schedule.possible
    lines.append(
        f"  {len(schedule.launches)} operations in {actual.steps} steps, at most {actual.widest} at once; "
        f"possible: {possible.steps} steps, {possible.widest} at once"
    )
    return lines


def race_line(race: Race) -> str:
    """A race in one line."""
    other = f"operation {race.second}" if race.second else f"{race.op} on the host"
    return f"operation {race.first} and {other} (line {race.line}) meet in {race.buffer}, and nothing orders them"


def needless_line(needless: Needless) -> str:
    """A needless order in one line, with the op that makes it."""
    why = f" ({', '.join(needless.reasons)})" if needless.reasons else ""
    return (
        f"{needless.first} and {needless.second} are independent, yet {needless.op} at line {needless.line} "
        f"orders them{why}"
    )


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def schedule_svg(schedule: LaunchSchedule, *, title: str) -> str:
    """Operations as boxes from left to right by the step in which they start.

    Black arrows are orders that are needed, dashed grey ones needless, red lines races.
    """
    boxes = _boxes(schedule)
    width = _LEFT * 2 + _COLUMN * max(schedule.actual.steps, 1)
    height = _TOP + _ROW * max([y for _, y in boxes.values()], default=0) + _ROW + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="11">',
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z"/></marker></defs>',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    parts += [_arrow(boxes, j, i, needed=j in needs) for j, i, needs in _edges(schedule.launches)]
    parts += _race_lines(boxes, schedule.races)
    parts += [_box(launch, *boxes[launch.number]) for launch in schedule.launches]
    return "\n".join([*parts, "</svg>", ""])


def _boxes(schedule: LaunchSchedule) -> dict[int, tuple[int, int]]:
    """Column and row of each operation."""
    used: dict[int, int] = {}
    places: dict[int, tuple[int, int]] = {}
    for launch, level in zip(schedule.launches, schedule.actual.level, strict=True):
        row = used.get(level, 0)
        used[level] = row + 1
        places[launch.number] = (level - 1, row)
    return places


def _edges(launches: tuple[Launch, ...]) -> list[tuple[int, int, tuple[int, ...]]]:
    """The orders that do not follow from others."""
    after = {launch.number: set(launch.after) for launch in launches}
    return [
        (j, launch.number, launch.needs)
        for launch in launches
        for j in launch.after
        if not any(j in after[k] for k in launch.after if k != j)
    ]


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    return _LEFT + place[0] * _COLUMN, _TOP + place[1] * _ROW


def _arrow(boxes: dict[int, tuple[int, int]], start: int, end: int, *, needed: bool) -> str:
    (x1, y1), (x2, y2) = _corner(boxes[start]), _corner(boxes[end])
    style = 'stroke="black"' if needed else 'stroke="#888" stroke-dasharray="5,3"'
    middle = _HEIGHT // 2
    return f'<line x1="{x1 + _WIDTH}" y1="{y1 + middle}" x2="{x2}" y2="{y2 + middle}" {style} marker-end="url(#tip)"/>'


def _race_lines(boxes: dict[int, tuple[int, int]], races: tuple[Race, ...]) -> list[str]:
    """One line per pair of operations, labelled with all buffers in which they meet."""
    buffers: dict[tuple[int, int], list[str]] = {}
    for race in races:
        if race.second is not None and race.first in boxes:
            buffers.setdefault((race.first, race.second), []).append(race.buffer)
    return [_race(boxes, *pair, ", ".join(names)) for pair, names in buffers.items()]


def _race(boxes: dict[int, tuple[int, int]], first: int, second: int, buffers: str) -> str:
    (x1, y1), (x2, y2) = _corner(boxes[first]), _corner(boxes[second])
    middle = _WIDTH // 2
    label = f'<text x="{x1 + middle + 6}" y="{y1 + _HEIGHT + 16}" fill="red">race: {escape(buffers)}</text>'
    line = f'<line x1="{x1 + middle}" y1="{y1}" x2="{x2 + middle}" y2="{y2 + _HEIGHT}" stroke="red" stroke-width="2"/>'
    return line + label


def _box(launch: Launch, column: int, row: int) -> str:
    x, y = _corner((column, row))
    name = launch.name.rpartition("@")[2]
    writes = ", ".join(a.buffer for a in launch.accesses if a.how != "read")
    tooltip = "; ".join(f"{a.how} {a.buffer}" for a in launch.accesses)
    return (
        f"<g><title>{escape(launch.name)}: {escape(tooltip)}</title>"
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="4" fill="#dbe9ff" stroke="#456"/>'
        f'<text x="{x + 6}" y="{y + 16}">{launch.number}. {escape(name[:22])}</text>'
        f'<text x="{x + 6}" y="{y + 31}" fill="#456">{escape(("writes " + writes)[:24])}</text></g>'
    )
