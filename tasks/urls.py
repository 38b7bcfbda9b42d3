"""API addresses of tasks, batches and kinds, with and without their slash."""

from rest_framework.routers import SimpleRouter

from tasks.api.kinds import KindViewSet
from tasks.api.views import BatchTasksViewSet, BatchViewSet, TaskViewSet

router = SimpleRouter()
router.trailing_slash = "/?"
router.register("tasks", TaskViewSet, basename="task")
router.register("batches", BatchViewSet, basename="batch")
router.register("batches/(?P<batch>[0-9]{1,18})/tasks", BatchTasksViewSet, basename="batch-task")
router.register("kinds", KindViewSet, basename="kind")
urlpatterns = router.urls
