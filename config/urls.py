"""All addresses of the site, app by app."""

from django.contrib import admin
from django.urls import include, path

handler400 = "kernel.api.error_views.bad_request"
handler404 = "kernel.api.error_views.not_found"
handler500 = "kernel.api.error_views.server_error"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", include("tasks.urls")),
    path("api/v1/", include("delivery.urls")),
    path("api/v1/", include("webhooks.api_urls")),
    path("api/v1/", include("console.api.urls")),
    path("webhooks/", include("webhooks.urls")),
    path("", include("console.urls")),
]
