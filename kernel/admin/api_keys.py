"""API keys in the admin: made here with the token shown once, changed in name and expiry, revoked, never deleted."""

from typing import Any

from django import forms
from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from unfold.decorators import action, display
from unfold.enums import ActionVariant
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from kernel import audit, clock
from kernel.admin.bases import ListedFiltersAdmin
from kernel.admin.confirm import actor_of, run_verb
from kernel.admin.forms import OnlyChangesAdmin
from kernel.auth import Scope, create_key, lacking
from kernel.models import ApiKey


def _words(label: str) -> str:
    return label.removeprefix("Start and ").capitalize()


class ApiKeyForm(forms.ModelForm):
    """Scopes as check boxes; only a new key may choose scopes and subscriber, and no more than its maker may do."""

    maker: Any = None
    scopes = forms.MultipleChoiceField(
        choices=[(value, f"{_words(label)} ({value})") for value, label in Scope.choices],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="What the key may do; at most what you may do yourself.",
    )

    class Meta:
        model = ApiKey
        fields = ("name", "scopes", "subscriber", "expires_at")

    def clean_scopes(self) -> list[str]:
        asked: list[str] = self.cleaned_data["scopes"]
        refusals = []
        for scope in asked:
            if missing := lacking(self.maker, scope):
                refusals.append(f"{scope}: you may not do all of this yourself; you lack {', '.join(missing)}.")
        if refusals:
            raise forms.ValidationError([forms.ValidationError(words, code="beyond_maker") for words in refusals])
        return asked


@admin.register(ApiKey)
class ApiKeyAdmin(OnlyChangesAdmin, ListedFiltersAdmin):
    form = ApiKeyForm
    list_display = ("name", "key_id", "status", "subscriber", "scope_words", "last_used_at", "created_at")
    list_filter = ("is_demo",)
    search_fields = ("name", "key_id", "subscriber")
    actions_detail = ("revoke",)
    fields = ("name", "scopes", "subscriber", "expires_at")

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        return self.fields if obj is None else ("name", "expires_at", *self.get_readonly_fields(request, obj))

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        if obj is None:
            return ()
        return ("key_id", "status", "scope_words", "subscriber", "created_at", "last_used_at", "revoked_at")

    def get_form(self, request: HttpRequest, obj: ApiKey | None = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is not None:
            kwargs["form"] = forms.ModelForm
        made = super().get_form(request, obj, change, **kwargs)
        made.maker = request.user  # the class is this request's own
        return made

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_revoke_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return self.has_change_permission(request)

    def why_not(self, verb: str, obj: ApiKey) -> str:
        return f"{obj.name} is revoked by now." if obj.revoked_at else ""

    @display(description="State", label={"live": "success", "revoked": "danger", "expired": "warning"})
    def status(self, obj: ApiKey) -> str:
        if obj.revoked_at:
            return "revoked"
        return "live" if obj.is_live(clock.now()) else "expired"

    @display(description="May")
    def scope_words(self, obj: ApiKey) -> str:
        return ", ".join(obj.scopes)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        with transaction.atomic():
            made, obj.token = create_key(  # type: ignore[attr-defined]
                obj.name, form.cleaned_data["scopes"], subscriber=obj.subscriber
            )
            made.expires_at = obj.expires_at
            made.save(update_fields=["expires_at"])
            audit.record(actor_of(request), "create", "api_key", [made.pk], user=request.user)
        obj.pk, obj.key_id = made.pk, made.key_id

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        """The token is shown on the answer itself: in no message, cookie, log or redirect."""
        context = {
            **self.admin_site.each_context(request),
            "title": "API key made",
            "opts": self.model._meta,
            "label": f"Token of “{obj.name}”",
            "shown_once": obj.token,  # type: ignore[attr-defined]
            "advice": "Send it as “Authorization: Bearer …”. It is stored as a hash and cannot be shown again.",
            "next": f"../{obj.pk}/change/",
        }
        return TemplateResponse(request, "admin/shown_once.html", context, headers={"Cache-Control": "no-store"})

    @action(description="Revoke", url_path="revoke", permissions=["revoke"], variant=ActionVariant.DANGER)
    def revoke(self, request: HttpRequest, object_id: str) -> HttpResponse:
        key = self.get_object(request, object_id)
        if key is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)

        def act(actor: str, cleaned: dict[str, Any]) -> str:
            with transaction.atomic():
                ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=clock.now())
                audit.record(actor, "revoke", "api_key", [key.pk], cleaned["reason"], user=request.user)
            return f"The key {key.name} is revoked; whoever uses it is refused from now on."

        return run_verb(
            self,
            request,
            key,
            verb="revoke",
            title=f"Revoke {key.name}",
            says=["Every caller with this key is refused at once.", "This cannot be undone; make a new key instead."],
            button="Revoke the key",
            act=act,
            is_danger=True,
        )
