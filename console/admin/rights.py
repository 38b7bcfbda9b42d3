"""Who may give which rights: nobody gives what they do not have, and nobody changes an account that may do more."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib.auth.models import Group, Permission
from unfold.forms import UserChangeForm

NAMED = 5


def may_change_user(maker: Any, user: Any) -> bool:
    """Whoever changes an account can log in as it (a new password does), so it may have no right that they lack."""
    if user is None or maker.is_superuser or maker.pk == user.pk:
        return True
    return not user.is_superuser and user.get_all_permissions() <= maker.get_all_permissions()


def beyond(maker: Any, permissions: Iterable[Permission]) -> list[str]:
    """Names of those of `permissions` that `maker` does not have, as `app.codename`."""
    if maker.is_superuser:
        return []
    has = maker.get_all_permissions()
    names = {f"{one.content_type.app_label}.{one.codename}" for one in permissions}
    return sorted(names - has)


def _refuse(maker: Any, permissions: Iterable[Permission]) -> None:
    if missing := beyond(maker, permissions):
        named = ", ".join(missing[:NAMED]) + (" and others" if len(missing) > NAMED else "")
        raise forms.ValidationError(f"You cannot give what you may not do yourself: {named}.", code="beyond_maker")


class UserForm(UserChangeForm):
    """Rights and groups that are added are judged; what was there may stay, or be taken away."""

    maker: Any = None

    def clean_user_permissions(self) -> Any:
        asked = self.cleaned_data["user_permissions"]
        _refuse(self.maker, _new(asked, self.instance, "user_permissions"))
        return asked

    def clean_groups(self) -> Any:
        asked = self.cleaned_data["groups"]
        joined: Iterable[Group] = _new(asked, self.instance, "groups")
        _refuse(self.maker, [one for group in joined for one in group.permissions.select_related("content_type")])
        return asked


class GroupForm(forms.ModelForm):
    maker: Any = None

    class Meta:
        model = Group
        fields = ("name", "permissions")

    def clean_permissions(self) -> Any:
        asked = self.cleaned_data["permissions"]
        _refuse(self.maker, _new(asked, self.instance, "permissions"))
        return asked


def _new(asked: Any, row: Any, relation: str) -> list[Any]:
    had = set(getattr(row, relation).values_list("pk", flat=True)) if row.pk else set()
    return [one for one in asked if one.pk not in had]
