"""How far a list looks: through the newest `MOST` rows, where no index leads straight to what is asked for.

A model names in `leads` the conditions that an index of its serves in order of id. A list that asks for one of them
and nothing else reads what it shows. Whatever else is asked is looked for row by row, and that has an end: at the
`MOST`th row that the best lead finds, or of the table where there is none. `Window.edge` says where it was, so that the
next page goes on there and nothing becomes out of reach. A model without `leads` has few rows. Reads only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Max, Min, Model, QuerySet
from django.db.models.expressions import Col
from django.db.models.lookups import Exact, In
from django.db.models.sql.where import AND, WhereNode

MOST = 100_000


def _always(*_values: Any) -> bool:
    return True


@dataclass(frozen=True)
class Lead:
    """Columns that an index serves together, newest first; `serves` is asked whether it does so for these values."""

    columns: tuple[str, ...]
    serves: Callable[..., bool] = _always


@dataclass(frozen=True)
class Window:
    """`rows` within the window; `edge` is the id of its last row, None where nothing is left out."""

    rows: QuerySet
    edge: int | None = None

    @property
    def is_cut(self) -> bool:
        return self.edge is not None

    @property
    def among_newest(self) -> int | None:
        """How many were looked through, for whoever is shown the rows; None where all were."""
        return MOST if self.is_cut else None


def of(rows: QuerySet, *, beyond: int | None = None, upwards: bool = False, is_by_id: bool = True) -> Window:
    """The part of `rows` that one page may look through: below the id `beyond`, or above it with `upwards`.

    `rows` are not cut yet. `is_by_id` says that they are shown in order of id; another order needs all of them at once.
    """
    if not hasattr(rows.model, "leads"):
        return Window(rows)
    asked = _asked(rows)
    leads = list(_leads(rows.model, asked.exact))
    is_served = not asked.others and (not asked.exact or any(lead == asked.exact for lead in leads))
    if asked.names_ids or (is_by_id and is_served):
        return Window(rows)
    edges = []
    for lead in leads:
        edge = _edge(rows.model._base_manager.filter(**lead), beyond, upwards)
        if edge is None:
            return Window(rows)  # so few rows have this in common that no more than those are looked at
        edges.append(edge)
    last = edges[0] if edges else _edge_of_all(rows.model, beyond, upwards)
    if last is None:
        return Window(rows)
    return Window(rows.filter(**{"pk__lte" if upwards else "pk__gte": last}), last)


def _edge(leading: QuerySet, beyond: int | None, upwards: bool) -> int | None:
    if beyond is not None:
        leading = leading.filter(**{"pk__gt" if upwards else "pk__lt": beyond})
    ids = leading.order_by("pk" if upwards else "-pk").values_list("pk", flat=True)[MOST - 1 : MOST + 1]
    found = list(ids)
    return found[0] if len(found) > 1 else None


def _edge_of_all(model: type[Model], beyond: int | None, upwards: bool) -> int | None:
    """By the ids alone: there are never more rows than ids between two of them."""
    ends = model._base_manager.aggregate(first=Min("pk"), last=Max("pk"))
    if ends["last"] is None:
        return None
    if upwards:
        edge = (ends["first"] - 1 if beyond is None else beyond) + MOST
        return edge if edge < ends["last"] else None
    edge = (ends["last"] + 1 if beyond is None else min(beyond, ends["last"] + 1)) - MOST
    return edge if edge > ends["first"] else None


@dataclass
class _Asked:
    """What the WHERE of a query says: columns that must be exactly something, how much else, and whether by id."""

    exact: dict[str, Any] = field(default_factory=dict)
    others: int = 0
    names_ids: bool = False  # then it finds as many rows as were named


def _asked(rows: QuerySet) -> _Asked:
    asked = _Asked()
    for condition in _conditions(rows.query.where):
        name = _column(condition, rows.model)
        if name == _key(rows.model) and isinstance(condition, Exact | In):
            asked.names_ids = True
        elif name is not None and isinstance(condition, Exact) and name not in asked.exact:
            asked.exact[name] = condition.rhs
        else:
            asked.others += 1
    return asked


def _key(model: type[Model]) -> str:
    key = model._meta.pk
    assert key is not None  # only abstract models have none
    return key.attname


def _conditions(node: Any) -> Iterator[Any]:
    """What must hold all together; a node that is negated, or an OR, is one condition."""
    for child in node.children:
        if isinstance(child, WhereNode) and child.connector == AND and not child.negated:
            yield from _conditions(child)
        else:
            yield child


def _column(condition: Any, model: type[Model]) -> str | None:
    """The column that is compared with a plain value, as a filter names it; of another table with that in front."""
    target = getattr(condition, "lhs", None)
    if not isinstance(target, Col) or hasattr(condition.rhs, "resolve_expression"):
        return None
    column = target.target
    return column.attname if column.model is model else f"{column.model._meta.model_name}__{column.attname}"


def _leads(model: type[Model], exact: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for lead in model.leads:  # type: ignore[attr-defined]
        if exact.keys() >= set(lead.columns) and lead.serves(*(exact[name] for name in lead.columns)):
            yield {name: exact[name] for name in lead.columns}
