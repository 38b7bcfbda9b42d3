"""The delivery side's REST API: endpoints, events, deliveries. Views and serializers only; the verbs are elsewhere."""
