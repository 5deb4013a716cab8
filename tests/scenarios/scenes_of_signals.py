"""Missing, stale and contradictory signals (A), and counters, duplicates and skewed clocks (B)."""

from tests.scenarios.scene import Scene, millis, names

TTFT = {"metrics": [{"name": "inflight_requests", "target": 8}, {"name": "ttft", "target": 500}]}
KV = {"metrics": [{"name": "token_utilization", "target": 0.8}]}


def a3() -> Scene:
    scene = Scene("kedacore/keda#6762: one poll reads zero between normal ones; the minimum is never justified by it")
    scene.fleet(4)
    for second in range(340):
        scene.steady([second], 4, 0.0 if second in (320, 321) else 8.0)
    return scene


def a4() -> Scene:
    scene = Scene("kubernetes/kubernetes#104387: every series is 0 at once while the router still counts arrivals")
    scene.fleet(4)
    for second in range(330):
        scene.steady([second], 4, 8.0 if second < 310 else 0.0)
        for name in names(4):
            scene.line(
                "telemetry.requests",
                second,
                replica=name,
                epoch="1",
                source="router",
                reporter="router-1",
                arrivals=2,
                completions=2,
                errors=0,
                aborted=0,
            )
    return scene


def a5() -> Scene:
    scene = Scene("kubernetes/kubernetes#99394: one metric says 1, the other is never there: no way down", **TTFT)
    scene.fleet(4)
    scene.steady(range(330), 4, 2.0)
    return scene


def a5_up() -> Scene:
    scene = Scene("kubernetes/kubernetes#99394: a metric that is never there does not stop growth", **TTFT)
    scene.fleet(4)
    scene.steady(range(30), 4, 12.0)
    return scene


def a8() -> Scene:
    scene = Scene(
        "vllm-project/aibrix#1032: 9 of 10 replicas report a KV use of 0.95, one nothing: growth goes on", **KV
    )
    scene.fleet(9, spec=10)
    scene.replica(-100, "chat-9", received=0.5)
    scene.steady(range(30), 9, 8.0, kv_cache_usage=0.95)
    return scene


def a8_down() -> Scene:
    scene = Scene("vllm-project/aibrix#1032: 9 of 10 replicas are nearly idle, one says nothing: no way down", **KV)
    scene.fleet(9, spec=10)
    scene.replica(-100, "chat-9", received=0.5)
    scene.steady(range(320), 9, 1.0, kv_cache_usage=0.2)
    return scene


def a8_given_up() -> Scene:
    scene = Scene(
        "decisions.md: a ready replica unheard for patienceSeconds counts with its target and blocks nothing", **KV
    )
    scene.fleet(10)
    scene.steady(range(320), 9, 1.0, kv_cache_usage=0.2)
    return scene


def a9() -> Scene:
    scene = Scene("volcano-sh/kthena#1403: the tenth is not ready; its silence is no gap", **KV)
    scene.fleet(9, spec=10)
    scene.replica(-200, "chat-9", "starting", received=0.5)
    scene.steady(range(320), 9, 1.0, kv_cache_usage=0.2)
    return scene


def a12() -> Scene:
    scene = Scene("llm-d/llm-d PR#2492: at zero no engine has a series, the gateway holds requests", minReplicas=0)
    scene.target(0, 0)
    for second in range(30):
        waiting = 0 if second < 10 else min(24, 3 * (second - 9))
        arrived = 3 if 0 < waiting < 24 else 0
        scene.gateway(second, running=0, waiting=waiting, arrivals=arrived, completions=0, errors=0, aborted=0)
    return scene


def a16() -> Scene:
    scene = Scene("ray-project/ray#61794: a replica that reports 0 is idle, it is not absent")
    scene.fleet(2)
    scene.steady(range(310), 2, 0.0)
    return scene


def a17() -> Scene:
    scene = Scene("ray-project/ray PR#64725: after the traffic stops TTFT is of nothing; that resets no timer", **TTFT)
    scene.fleet(4)
    for second in range(680):
        busy = second < 320
        scene.steady([second], 4, 8.0 if busy else 0.0, ttft_ms=millis(400.0, 2 if busy else 0))
    return scene


def a23() -> Scene:
    scene = Scene("ai-dynamo/dynamo#14765: the counts can no longer be read, the gateway's arrivals go on: no idleness")
    scene.fleet(4)
    for second in range(360):
        if second < 320:
            scene.steady([second], 4, 8.0)
        else:
            for name in names(4):
                scene.line("telemetry.requests", second, replica=name, epoch="1", source="engine")
        scene.gateway(second, running=0, waiting=0, arrivals=20, completions=20, errors=0, aborted=0)
    return scene


def a24_readable() -> Scene:
    scene = Scene("ai-dynamo/dynamo PR#7067: latencies are of nothing, the count is a known 0: down is right", **TTFT)
    scene.fleet(4)
    scene.steady(range(330), 4, 0.0, ttft_ms=millis(1.0, 0))
    return scene


def a24_unreadable() -> Scene:
    scene = Scene("ai-dynamo/dynamo PR#7067: latencies are of nothing and no count can be read: hold", **TTFT)
    scene.fleet(4)
    for second in range(330):
        for name in names(4):
            scene.line("telemetry.requests", second, replica=name, epoch="1", source="engine", ttft_ms=millis(1.0, 0))
    return scene


def a25() -> Scene:
    scene = Scene(
        "vanvalenlab/kiosk-console#141: a ratio without a denominator must not freeze the fleet",
        metrics=[{"name": "ttft", "target": 500}],
    )
    scene.fleet(4)
    scene.steady(range(330), 4, 0.0, ttft_ms=millis(1.0, 0))
    return scene


def a22() -> Scene:
    scene = Scene("volcano-sh/kthena#1037: before the first sample nothing is known; that is no zero")
    scene.target(0, 4)
    for name in names(4):
        scene.replica(-3600, name, received=0.5)
    scene.until(30)
    scene.steady(range(30, 50), 4, 8.0)
    return scene


def b5() -> Scene:
    scene = Scene("knative/serving#6743: a reporter sends every second twice; nothing is added")
    scene.fleet(2)
    for second in range(40):
        scene.steady([second], 2, 8.0)
        scene.steady([second], 2, 8.0, seq=1, received=second + 1.5)
    return scene


def b8() -> Scene:
    scene = Scene("ray-project/ray#66271: one node's clock is 20 s behind; its samples are corrected, not stale")
    scene.fleet(2)
    for second in range(40, 400):
        scene.engine(second, "chat-0", 8.0)
        scene.engine(second - 20, "chat-1", 8.0, received=second + 1.0)
    return scene


def b9() -> Scene:
    scene = Scene("knative/serving#3301: engine and router count the same requests; the two are never added")
    scene.fleet(2)
    for second in range(40):
        scene.steady([second], 2, 8.0)
        scene.steady([second], 2, 8.0, source="router", reporter="router-1")
    return scene


def b14() -> Scene:
    scene = Scene("ray-project/ray#38118: a queue stuck at 42 while completions go on is suspect")
    scene.fleet(2)
    for second in range(60):
        scene.engine(second, "chat-0", 8.0)
        scene.engine(second, "chat-1", 0.0, waiting=42, arrivals=0, completions=2 if second >= 20 else 0)
    return scene


def b24() -> Scene:
    scene = Scene("pravega/pravega#6067: steady traffic between half the target and the target keeps the fleet")
    scene.fleet(3)
    scene.steady(range(320), 3, 6.0)
    return scene


SCENES = {
    "A3": a3,
    "A4": a4,
    "A5": a5,
    "A5-up": a5_up,
    "A8": a8,
    "A8-down": a8_down,
    "A8-given-up": a8_given_up,
    "A9": a9,
    "A12": a12,
    "A16": a16,
    "A17": a17,
    "A22": a22,
    "A23": a23,
    "A24-readable": a24_readable,
    "A24-unreadable": a24_unreadable,
    "A25": a25,
    "B5": b5,
    "B8": b8,
    "B9": b9,
    "B14": b14,
    "B24": b24,
}
