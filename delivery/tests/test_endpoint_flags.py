"""An endpoint's three switches (paused, disabled, needs attention): what each verb does to each of them, in any mix."""

import itertools
from datetime import timedelta

import pytest
from django.utils import timezone

from delivery import endpoints, lifecycle
from delivery.errors import WrongState
from delivery.models import Endpoint, EndpointHealth
from delivery.tests import factories

pytestmark = pytest.mark.django_db
WHO = {"actor": "user:1:ada", "reason": "maintenance"}
FLAGS = ("paused", "disabled", "attention")
MIXES = [frozenset(mix) for size in range(4) for mix in itertools.combinations(FLAGS, size)]
EARLIER = timezone.now() - timedelta(hours=1)


def made(flags: frozenset[str]) -> Endpoint:
    return factories.endpoint(
        **{f"{flag}_at": EARLIER for flag in flags}, hold_reason="as before" if flags else "", version=7
    )


def flags_of(endpoint: Endpoint) -> frozenset[str]:
    return frozenset(flag for flag in FLAGS if getattr(endpoint, f"{flag}_at"))


def now_of(endpoint: Endpoint) -> Endpoint:
    return Endpoint.objects.get(pk=endpoint.pk)


@pytest.mark.parametrize("flags", MIXES, ids=lambda flags: "+".join(sorted(flags)) or "none")
class TestEveryMix:
    def test_pause_adds_the_pause_and_keeps_policys_reason(self, flags):
        endpoint = made(flags)
        endpoints.pause(endpoint, **WHO)
        after = now_of(endpoint)
        assert flags_of(after) == flags | {"paused"}
        assert after.hold_reason == ("as before" if flags - {"paused"} else "maintenance")
        assert (after.paused_at == EARLIER) is ("paused" in flags)
        assert (after.version, after.is_held) == (8, True)

    def test_resume_ends_pause_and_attention_and_never_a_disabling(self, flags):
        endpoint = made(flags)
        if "disabled" in flags:
            with pytest.raises(WrongState, match=r"disabled \(as before\)\. Enable it"):
                endpoints.resume(endpoint, **WHO)
            assert (flags_of(now_of(endpoint)), now_of(endpoint).version) == (flags, 7)
            return
        endpoints.resume(endpoint, **WHO)
        after = now_of(endpoint)
        assert (flags_of(after), after.hold_reason, after.is_held, after.state) == (frozenset(), "", False, "active")
        assert after.version == 8

    def test_enable_undoes_what_policy_did_and_a_pause_stays_a_pause(self, flags):
        endpoint = made(flags)
        endpoints.enable(endpoint, **WHO)
        after = now_of(endpoint)
        assert flags_of(after) == flags & {"paused"}
        assert after.is_held is ("paused" in flags)
        if flags == {"paused"}:
            assert after.hold_reason == "as before"
        elif "paused" in flags:  # policy's reason does not explain what is left
            assert after.hold_reason == endpoints.PAUSED_BEFORE
        else:
            assert after.hold_reason == ""

    @pytest.mark.parametrize(
        ("verb", "flag"), [(lifecycle.disable_endpoint, "disabled"), (lifecycle.need_attention, "attention")]
    )
    def test_policys_switch_adds_its_own_flag_once(self, flags, verb, flag):
        endpoint, now = made(flags), timezone.now()
        assert verb(endpoint.pk, reason="410 Gone", now=now) is (flag not in flags)
        after = now_of(endpoint)
        assert flags_of(after) == flags | {flag}
        assert getattr(after, f"{flag}_at") == (EARLIER if flag in flags else now)
        assert after.hold_reason == ("as before" if flag in flags else "410 Gone")
        assert (after.version, after.is_held) == (7 if flag in flags else 8, True)

    def test_the_word_shown_is_the_gravest(self, flags):
        words = {"disabled": "disabled", "attention": "needs_attention", "paused": "paused"}
        expected = next((word for flag, word in words.items() if flag in flags), "active")
        assert made(flags).state == expected

    def test_a_deleted_one_takes_no_verb(self, flags):
        endpoint = made(flags)
        endpoints.delete(endpoint, **WHO)
        for verb in (endpoints.pause, endpoints.resume, endpoints.enable):
            with pytest.raises(WrongState, match="was deleted"):
                verb(endpoint, **WHO)
        assert (flags_of(now_of(endpoint)), now_of(endpoint).state) == (flags, "deleted")


@pytest.mark.parametrize("verb", [endpoints.resume, endpoints.enable])
def test_the_refusals_are_forgotten_with_the_hold(verb):
    endpoint = factories.endpoint(
        attention_at=EARLIER, health={"refusal_kind": "rejected 401", "refusal_count": 5, "consecutive_failures": 3}
    )
    verb(endpoint, **WHO)
    health = EndpointHealth.objects.get()
    assert (health.refusal_kind, health.refusal_count, health.consecutive_failures) == ("", 0, 0)


def test_a_pause_without_a_reason_says_who():
    endpoint = factories.endpoint()
    assert endpoints.pause(endpoint, actor="user:1:ada", reason="").hold_reason == "paused by user:1:ada"


def test_a_long_reason_is_cut_to_what_the_column_holds():
    endpoint = factories.endpoint()
    assert endpoints.pause(endpoint, actor="a", reason="x" * 500).hold_reason == "x" * 200
