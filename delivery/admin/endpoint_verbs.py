"""The verbs of an endpoint as buttons of its admin page: who may, when not, what is asked first, what is said after."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from unfold.decorators import action
from unfold.enums import ActionVariant

from delivery import endpoint_secrets, endpoints, labels, stats
from delivery.admin import settling
from delivery.admin.forms import ResumeForm, RotationForm, end_secret_form
from delivery.errors import DeliveryError
from delivery.models import Endpoint, EndpointHealth
from delivery.policy.catalogue import ENDPOINT_TEST
from delivery.states import BreakerState, WaitReason
from kernel import clock
from kernel.admin.bases import ListedFiltersAdmin
from kernel.admin.confirm import OptionalReasonForm, ReasonForm, run_verb


class EndpointVerbs(ListedFiltersAdmin):
    """What the admin of endpoints is made of, beside its list and its form."""

    actions_detail = (
        "resume_verb",
        "enable_verb",
        "pause_verb",
        "test_verb",
        {
            "title": "More",
            "items": [
                "fix_rate_verb",
                "lift_throttle_verb",
                "rotate_verb",
                "end_secret_verb",
                "settle_verb",
                "delete_verb",
            ],
        },
    )

    def has_pause_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.pause_endpoint")

    has_resume_permission = has_enable_permission = has_pause_permission

    def has_test_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.change_endpoint")

    def has_fix_rate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.change_endpoint")

    def has_lift_throttle_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.pause_endpoint")

    def has_rotate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.view_secret_endpoint")

    def has_end_secret_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.view_secret_endpoint")

    @staticmethod
    def _earlier(object_id: Any) -> list[endpoint_secrets.Earlier]:
        rows: Any = Endpoint.objects.annotate(read_at=Now()).filter(pk=object_id)
        return [one for row in rows for one in endpoint_secrets.live_earlier(row, row.read_at)]

    def has_remove_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm("delivery.delete_endpoint")

    def has_settle_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return any(request.user.has_perm(right) for right in settling.RIGHTS.values())

    def why_not(self, verb: str, obj: Endpoint) -> str:
        if verb == "settle":
            return settling.why_not(obj)
        if obj.deleted_at:
            return "It is deleted by now."
        if verb == "pause" and obj.paused_at:
            return "It is paused by now."
        if verb == "resume" and obj.disabled_at:
            return "It is disabled by now; enable it instead."
        if verb == "resume" and not obj.is_held and not self._waits(obj):
            return "It is active by now."
        if verb == "enable" and not obj.disabled_at:
            return "It is enabled by now."
        if verb in ("fix_rate", "lift_throttle"):
            return self._why_no_pace(verb, obj)
        if verb == "end_secret" and not self._earlier(obj.pk):
            return "No earlier secret signs by now; only the standing one does."
        return ""

    @staticmethod
    def _waits(obj: Endpoint) -> bool:
        """Its breaker is not closed, or it was asked to wait: Resume begins anew there, too. Of no use where its
        settings cannot be read."""
        waits = ~Q(breaker_state=BreakerState.CLOSED) | Q(throttled_until__gt=clock.now())
        rows = EndpointHealth.objects.filter(waits, pk=obj.pk)
        return rows.exclude(wait_reason=WaitReason.UNUSABLE).exists()

    @staticmethod
    def _why_no_pace(verb: str, obj: Endpoint) -> str:
        health = EndpointHealth.objects.filter(pk=obj.pk).first()
        if health is not None and health.pace_per_second is not None:
            return ""
        if verb == "fix_rate":
            return "No pace is learned by now: it is sent to as fast as its own limits allow."
        waits = health is not None and health.throttled_until is not None and health.throttled_until > clock.now()
        return "" if waits else "Nothing throttles it by now."

    def _run(self, request: HttpRequest, object_id: str, **how: Any) -> HttpResponse:
        endpoint = self.get_object(request, object_id)
        if endpoint is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        title, verb = how.pop("title"), how.pop("verb")
        return run_verb(
            self, request, endpoint, verb=verb, title=f"{title} {endpoint}", refusals=(DeliveryError,), **how
        )

    @action(description="Pause", url_path="pause", permissions=["pause"], icon="pause")
    def pause_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            endpoints.pause(int(object_id), actor=actor, reason=form["reason"])
            return "Paused. Deliveries are held, and go out when you resume it."

        says = ["Nothing is sent to it until you resume it.", "Its deliveries are held and lost by nobody."]
        return self._run(
            request, object_id, verb="pause", title="Pause", says=says, button="Pause", act=act, form_class=ReasonForm
        )

    @action(
        description="Resume",
        url_path="resume",
        permissions=["resume"],
        icon="play_arrow",
        variant=ActionVariant.PRIMARY,
    )
    def resume_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            redrive = form["redrive_refused"]
            endpoints.resume(int(object_id), actor=actor, reason=form["reason"], redrive_refused=redrive)
            return "Resumed. What was held is being sent."

        waiting = stats.waiting_at(int(object_id)).words
        says = [
            f"{waiting} held deliveries will be sent, at most as fast as its limits allow.",
            "Breaker, failure counters, a wait that the receiver asked for and the learned pace begin anew.",
        ]
        form = ResumeForm
        return self._run(
            request, object_id, verb="resume", title="Resume", says=says, button="Resume", act=act, form_class=form
        )

    @action(
        description="Enable",
        url_path="enable",
        permissions=["enable"],
        icon="power_settings_new",
        variant=ActionVariant.PRIMARY,
    )
    def enable_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            endpoints.enable(int(object_id), actor=actor, reason=form["reason"])
            return "Enabled. What was held is being sent, unless it is paused as well."

        says = ["It was disabled because its receiver said that it is gone, or by policy.", "Is its URL right by now?"]
        return self._run(request, object_id, verb="enable", title="Enable", says=says, button="Enable", act=act)

    @action(description="Send a test", url_path="test", permissions=["test"], icon="send")
    def test_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str | HttpResponse:
            sent = endpoints.send_test(int(object_id), actor=actor, reason=form["reason"])
            address = reverse("admin:delivery_delivery_change", args=[sent.pk])
            told = format_html('A test is on its way: <a class="underline" href="{}">{}</a>.', address, sent)
            if not request.user.has_perm("delivery.view_delivery"):
                return told
            messages.success(request, told)
            return HttpResponseRedirect(address)  # its page shows what comes of it

        says = [
            f"One event “{ENDPOINT_TEST}” is sent to this endpoint only.",
            "It goes out at once, whatever holds the endpoint; its page shows the answer.",
        ]
        form = OptionalReasonForm
        return self._run(
            request, object_id, verb="test", title="Test", says=says, button="Send it", act=act, form_class=form
        )

    @action(description="Fix its rate", url_path="fix-rate", permissions=["fix_rate"], icon="speed")
    def fix_rate_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            fixed = endpoints.fix_rate(int(object_id), actor=actor, reason=form["reason"])
            return f"Its limit is {fixed.rate_per_minute} a minute from now on."

        says = [self._pace_words(object_id), "That becomes its own limit, until somebody changes it in the form."]
        form = OptionalReasonForm
        how = {"verb": "fix_rate", "title": "Fix the rate of", "button": "Fix"}
        return self._run(request, object_id, says=says, act=act, form_class=form, **how)

    @action(description="Lift the throttle", url_path="lift-throttle", permissions=["lift_throttle"], icon="lock_open")
    def lift_throttle_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            endpoints.lift_throttle(int(object_id), actor=actor, reason=form["reason"])
            return "Lifted. It is sent to as fast as its own limits allow."

        says = [
            self._pace_words(object_id),
            "The wait that the receiver asked for and the learned pace are forgotten. If it still limits us, it will "
            "say so again.",
        ]
        form = OptionalReasonForm
        how = {"verb": "lift_throttle", "title": "Lift the throttle of", "button": "Lift"}
        return self._run(request, object_id, says=says, act=act, form_class=form, **how)

    @staticmethod
    def _pace_words(object_id: str) -> str:
        health, now = EndpointHealth.objects.filter(endpoint_id=int(object_id)).first(), clock.now()
        if health is None:
            return "Nothing holds us back."
        return labels.pace(health, now) or labels.why_held(Endpoint(), health, now) or "Nothing holds us back."

    @action(description="Rotate its secret", url_path="rotate", permissions=["rotate"], icon="key")
    def rotate_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> HttpResponse:
            overlap = endpoints.SECRET_OVERLAP if form["overlap"] else endpoints.SECRET_OVERLAP * 0
            said = {"reason": form["reason"], "token": form["token"]}
            rotated = endpoints.rotate_secret(int(object_id), actor=actor, overlap=overlap, **said)
            return self._shown_once(request, rotated, "Secret rotated")

        says = [
            "A new signing secret is made and shown once.",
            "During the overlap both sign; earlier secrets keep the time that was promised for them.",
        ]
        form = RotationForm
        return self._run(
            request,
            object_id,
            verb="rotate",
            title="Rotate secret of",
            says=says,
            button="Rotate",
            act=act,
            form_class=form,
        )

    @action(description="End a secret", url_path="end-secret", permissions=["end_secret"], icon="key_off")
    def end_secret_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            endpoints.end_secret(int(object_id), form["secret"], actor=actor, reason=form["reason"])
            return f"Secret {form['secret']} has ended; it signs nothing more."

        says = [
            "The secret you choose signs no more, at once. A receiver that has only this one refuses our calls.",
            "The standing secret cannot be ended: rotate it, and switch the overlap off.",
        ]
        form = end_secret_form(self._earlier(object_id))
        how = {
            "verb": "end_secret",
            "title": "End a secret of",
            "button": "End it",
        }
        return self._run(request, object_id, says=says, act=act, form_class=form, is_danger=True, **how)

    @action(
        description="Delete", url_path="remove", permissions=["remove"], icon="delete", variant=ActionVariant.DANGER
    )
    def delete_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            done = endpoints.delete(int(object_id), actor=actor, reason=form["reason"], **settling.wish(request, form))
            return f"Deleted; {done.cancelled:,} waiting deliveries were cancelled. {settling.told(done)}".rstrip()

        waiting = stats.waiting_at(int(object_id)).words
        says = [
            f"{waiting} waiting deliveries will be cancelled, and nothing is sent to it any more.",
            *settling.says(int(object_id)),
            "Its past deliveries stay. This cannot be undone; pause it instead if you are not sure.",
        ]
        form = settling.form_for(request, int(object_id), is_kept=False)
        how = {"verb": "remove", "title": "Delete", "button": "Delete it"}
        return self._run(request, object_id, says=says, act=act, form_class=form, is_danger=True, **how)

    @action(description="Settle its dead letters", url_path="settle", permissions=["settle"], icon="inventory_2")
    def settle_verb(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(actor: str, form: dict[str, Any]) -> str:
            asked = settling.wish(request, form)
            done = endpoints.settle_dead_letters(int(object_id), actor=actor, reason=form["reason"], **asked)
            return settling.told(done) or "There was nothing left to settle."

        says = ["They were kept when the endpoint was deleted.", "What is discarded is given up for good."]
        form = settling.form_for(request, int(object_id), is_kept=True)
        how = {"verb": "settle", "title": "Settle dead letters of", "button": "Settle"}
        return self._run(request, object_id, says=says, act=act, form_class=form, is_danger=True, **how)

    def _shown_once(self, request: HttpRequest, endpoint: Endpoint, title: str) -> TemplateResponse:
        """The secret on the answer itself: in no message, cookie, log or redirect."""
        secret = endpoint.public_key or endpoint.secret
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.model._meta,
            "label": "Public key for the receiver" if endpoint.public_key else "Signing secret for the receiver",
            "shown_once": secret,
            "advice": "Give it to the receiver: it verifies our signatures with it (Standard Webhooks).",
            "next": reverse("admin:delivery_endpoint_change", args=[endpoint.pk]),
        }
        return TemplateResponse(request, "admin/shown_once.html", context, headers={"Cache-Control": "no-store"})
