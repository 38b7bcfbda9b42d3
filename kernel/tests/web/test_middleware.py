"""The frame of our middlewares: the same order in sync and async, and all of ours stand on it."""

import contextlib

import pytest
from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpResponse
from django.test import RequestFactory
from django.utils.module_loading import import_string

from kernel.web.middleware import Middleware

REQUEST = RequestFactory().get("/")


class Noting(Middleware):
    def __init__(self, get_response, refusal=None):
        super().__init__(get_response)
        self.steps, self.refusal = [], refusal

    @contextlib.contextmanager
    def around(self, request):
        self.steps.append("begin")
        try:
            yield
        finally:
            self.steps.append("end")

    def refuse(self, request):
        self.steps.append("judge")
        return self.refusal

    def finish(self, request, response):
        self.steps.append(f"finish {response.status_code}")


def _view(request):
    return HttpResponse(status=200)


async def _async_view(request):
    return HttpResponse(status=200)


def _never(request):
    raise AssertionError("the view was asked")


async def _async_never(request):
    raise AssertionError("the view was asked")


def test_a_view_is_asked_between_the_steps():
    middleware = Noting(_view)
    assert middleware(REQUEST).status_code == 200 and not iscoroutinefunction(middleware)
    assert middleware.steps == ["begin", "judge", "finish 200", "end"]


async def test_an_async_view_too():
    middleware = Noting(_async_view)
    assert iscoroutinefunction(middleware)
    assert (await middleware(REQUEST)).status_code == 200
    assert middleware.steps == ["begin", "judge", "finish 200", "end"]


async def test_who_is_refused_reaches_no_view_and_is_finished_like_the_others():
    refusal = HttpResponse(status=418)
    sync, both = Noting(_never, refusal), Noting(_async_never, refusal)
    assert sync(REQUEST) is refusal and await both(REQUEST) is refusal
    assert sync.steps == both.steps == ["begin", "judge", "finish 418", "end"]


async def test_what_holds_ends_with_a_view_that_breaks():
    sync, both = Noting(_never), Noting(_async_never)
    with pytest.raises(AssertionError):
        sync(REQUEST)
    with pytest.raises(AssertionError):
        await both(REQUEST)
    assert sync.steps == both.steps == ["begin", "judge", "end"]


def test_a_middleware_that_says_nothing_changes_nothing():
    answer = HttpResponse()
    assert Middleware(lambda request: answer)(REQUEST) is answer


def test_all_of_ours_stand_on_it():
    ours = [import_string(name) for name in settings.MIDDLEWARE if name.startswith(("kernel.", "console."))]
    assert len(ours) == 6
    assert [one.__name__ for one in ours if one.__init__ is not Middleware.__init__ or "__call__" in vars(one)] == []
