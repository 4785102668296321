"""A picture of the ratios: one bar per row on a logarithmic scale, a mark where its target is."""
import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, BAR, GAP = 900, 330, 110, 56, 18, 10
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .small { font-size: 11px; fill: #57606a }
  .grid { stroke: #d0d7de }
  .one { stroke: #57606a }
  .ok { fill: #1f883d }
  .miss { fill: #cf222e }
  .target { stroke: #24292f; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .small { fill: #9198a1 }
    .grid { stroke: #3d444d }
    .one { stroke: #9198a1 }
    .target { stroke: #e6edf3 }
    .ok { fill: #3fb950 }
    .miss { fill: #f85149 }
  }
"""


def scale(entries):
    """The decades that the axis spans: powers of ten around every ratio and target, and around 1."""
    values = [1.0, *(e["ratio"] for e in entries), *(e["target"] for e in entries)]
    low = math.floor(math.log10(min(values)))
    return low, max(math.ceil(math.log10(max(values))), low + 1)


def draw(entries):
    """The picture of evaluated rows, all of which have a ratio."""
    low, high = scale(entries)

    def x(value):
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(value) - low) / (high - low)

    bottom = TOP + len(entries) * (BAR + GAP)
    height = bottom + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
        "<title>How many times better Castor is than Java's broker</title>",
        f"<style>{STYLE}</style>",
        f'<text x="{LEFT}" y="18">How many times better Castor is than the Java broker (vertical mark: target)</text>',
    ]
    for power in range(low, high + 1):
        at = x(10.0**power)
        parts.append(f'<line class="{"one" if power == 0 else "grid"}" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP - 6}" y2="{bottom}"/>')
        parts.append(f'<text class="small" x="{at:.1f}" y="{TOP - 12}" text-anchor="middle">{10.0**power:g}×</text>')
    for i, entry in enumerate(entries):
        parts += _bar(entry, TOP + i * (BAR + GAP), x)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(entry, y, x):
    """A bar from 1 to the ratio, so that it points left where Castor is worse."""
    start, end = sorted((x(1.0), x(entry["ratio"])))
    target, middle = x(entry["target"]), y + BAR / 2 + 4
    return [
        f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{escape(entry["title"])}</text>',
        f'<rect class="{"ok" if entry["ok"] else "miss"}" x="{start:.1f}" y="{y}" width="{max(end - start, 1):.1f}" height="{BAR}"/>',
        f'<line class="target" x1="{target:.1f}" x2="{target:.1f}" y1="{y - 3}" y2="{y + BAR + 3}"/>',
        f'<text x="{max(end, target) + 6:.1f}" y="{middle}">{entry["ratio"]:.3g}×</text>',
    ]
