"""API addresses of tasks, batches, kinds, schedules and follow-ups, with and without their slash."""

from rest_framework.routers import SimpleRouter

from tasks.api.accounts import AccountViewSet
from tasks.api.follow_ups import FollowUpViewSet
from tasks.api.kinds import KindViewSet
from tasks.api.schedules import ScheduleViewSet
from tasks.api.views import BatchTasksViewSet, BatchViewSet, TaskViewSet

router = SimpleRouter()
router.trailing_slash = "/?"
router.register("tasks", TaskViewSet, basename="task")
router.register("batches", BatchViewSet, basename="batch")
router.register("batches/(?P<batch>[0-9]{1,18})/tasks", BatchTasksViewSet, basename="batch-task")
router.register("kinds", KindViewSet, basename="kind")
router.register("schedules", ScheduleViewSet, basename="schedule")
router.register("follow-ups", FollowUpViewSet, basename="follow-up")
router.register("provider-accounts", AccountViewSet, basename="provider-account")
urlpatterns = router.urls
