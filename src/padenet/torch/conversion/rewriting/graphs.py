"""Calls of units in the graph of an ``fx.GraphModule``, whose text is written from its graph."""

from collections.abc import Iterable

from torch import fx

from padenet.torch.conversion.rewriting.forward import Change
from padenet.torch.conversion.rewriting.sites import Site


def rewire(module: fx.GraphModule, changes: Iterable[tuple[Site, Change]]) -> None:
    graph = module.graph
    for site, change in changes:
        nodes = {n.name: n for n in graph.nodes}
        record = site.records[0]
        node = nodes[record.target or record.node.target.id]
        names = [n for n, v in record.env.items() if v is site.leaf]
        x = next((nodes[n] for n in names if n in nodes), None) or node.all_input_nodes[0]
        order = list(graph.nodes)
        later = set(order[order.index(node) + 1 :])
        with graph.inserting_after(node):
            target = change.unit or str(node.target)
            new = graph.create_node("call_module", target, (x,))
        node.replace_all_uses_with(new)
        if change.names:
            for user in [n for n in x.users if n in later and n is not new]:
                user.replace_input_with(x, new)
        graph.erase_node(node)
    graph.lint()
    module.recompile()
