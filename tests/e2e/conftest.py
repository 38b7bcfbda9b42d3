"""One browser for all end-to-end tests of a session; the running system is in `tests.conftest`."""

import shutil

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/e2e" in str(item.path):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(autouse=True)
def _no_faults_left(request):
    yield
    if "system" in request.fixturenames:
        request.getfixturevalue("system").faults()


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert path, "no Chromium on this machine: apt-get install chromium"
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def page(browser, system):
    """A page in which the operator is logged in."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(f"{system.url}/admin/login/?next=/")
    page.fill("input[name=username]", system.demo["admin_username"])
    page.fill("input[name=password]", system.demo["admin_password"])
    page.press("input[name=password]", "Enter")
    page.wait_for_url(f"{system.url}/")
    yield page
    context.close()
