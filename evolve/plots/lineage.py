"""The ancestry of the best program: one generation a row, edges say what was done and gained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evolve.history import History
from evolve.lineage import lineage_graph
from evolve.plots.style import MAP, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Changed lines that are written out on an edge.
MAX_LINES = 3


def draw_lineage(history: History) -> Figure:
    """Return the steps from the starting program to the best one, top to bottom."""
    import networkx as nx
    from matplotlib.figure import Figure

    graph = lineage_graph(list(history.lineage))
    # One column, since an ancestry is a chain; networkx lays the generations out.
    position = nx.multipartite_layout(graph, subset_key="generation", align="horizontal")
    depth = len(graph)
    order = sorted(graph, key=lambda node: graph.nodes[node]["generation"])
    height = {node: float(depth - 1 - i) for i, node in enumerate(order)}
    position = {node: (0.0 * position[node][0], height[node]) for node in order}
    figure = Figure(figsize=(7.6, max(1.8, 0.95 * depth)), layout="constrained")
    axis = figure.subplots()
    means = [graph.nodes[node]["mean"] for node in order]
    nx.draw_networkx_nodes(
        graph, position, nodelist=order, node_color=means, cmap=MAP, node_size=260, ax=axis
    )
    nx.draw_networkx_edges(graph, position, arrowsize=8, ax=axis, node_size=260)
    for node in order:
        data = graph.nodes[node]
        axis.annotate(
            f"{node}:  {data['mean']:.4f}",
            (0.0, height[node]),
            xytext=(-14, 0),
            textcoords="offset points",
            ha="right",
            va="center",
        )
    for before, after, data in graph.edges(data=True):
        version = graph.nodes[after]["version"]
        lines = [plain(line, 70) for line in data["lines"][:MAX_LINES]]
        more = len(data["lines"]) - len(lines)
        head = f"{data['gain']:+.4f}  {plain(data['operator'], 40)}, policy v{version}"
        tail = [f"... and {more} more"] if more > 0 else []
        axis.annotate(
            "\n".join([head, *lines, *tail]),
            (0.0, (height[before] + height[after]) / 2),
            xytext=(14, 0),
            textcoords="offset points",
            va="center",
            fontsize=6,
            family="monospace",
        )
    axis.set_xlim(-0.5, 2.0)
    axis.set_ylim(-0.5, depth - 0.5)
    axis.axis("off")
    axis.set_title("from the starting program to the best: id and mean reward, gain of each edit")
    return figure
