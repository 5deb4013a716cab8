"""Replicas that are not ready, roll or fail (C), flapping and stabilisation (D), drain, ownership, units (E, F, H)."""

from tests.scenarios.scene import Scene, millis, names


def b12() -> Scene:
    scene = Scene("knative/serving#2705: the scaler is new, its window half empty: no way down before a whole one")
    scene.fleet(4)
    scene.steady(range(320), 4, 1.0)
    return scene


def c2() -> Scene:
    scene = Scene("inference-sim/inference-sim#1109: instances that load are waited for, not asked for again")
    scene.fleet(2, spec=4)
    for name in names(4)[2:]:
        scene.replica(-10, name, "starting", received=0.5)
    scene.steady(range(60), 2, 16.0)
    return scene


def c5() -> Scene:
    scene = Scene(
        "kubernetes/kubernetes#138505: spec 4, 5 alive in a rollout, use 3 % over the target: the spec stays",
        metrics=[{"name": "cpu_utilization", "target": 0.5}],
    )
    scene.fleet(5, spec=4)
    scene.target(1, 4, rollout=True)
    scene.steady(range(40), 5, 4.0, cpu=0.515)
    return scene


def c10() -> Scene:
    scene = Scene(
        "ai-dynamo/dynamo#14251, vllm-project/aibrix#617: one pod pending for hours, little load: it goes first"
    )
    scene.fleet(2, spec=3)
    scene.replica(-7200, "chat-2", "unschedulable", received=0.5)
    scene.steady(range(310), 2, 6.0)
    return scene


def c10_busy() -> Scene:
    scene = Scene("ai-dynamo/dynamo#14251: a pod that cannot be scheduled is no reason to ask for more")
    scene.fleet(2, spec=3)
    scene.replica(-7200, "chat-2", "unschedulable", received=0.5)
    scene.steady(range(60), 2, 12.0)
    return scene


def c12() -> Scene:
    scene = Scene("skypilot-org/skypilot#3255: someone asks for more than the maximum", maxReplicas=3)
    scene.fleet(3)
    scene.steady(range(30), 3, 8.0)
    scene.target(20, 5)
    return scene


def c14() -> Scene:
    scene = Scene("knative/serving#13677: a defective revision never starts, demand waits at the gateway: given up")
    scene.target(0, 1)
    for start in range(4):
        epoch = str(start + 1)
        scene.replica(10 * start, "chat-0", "starting", epoch=epoch)
        scene.replica(10 * start + 5, "chat-0", "failed", epoch=epoch)
    for second in range(60):
        waiting = 4 if second < 40 else 24
        scene.gateway(second, running=0, waiting=waiting, errors=0, aborted=0)
    return scene


def d8() -> Scene:
    scene = Scene("kubernetes/kubernetes#98174: the need falls from 6 to 5 to 4 while 3 run: up to the need, no more")
    scene.fleet(3)
    for second in range(80):
        scene.steady([second], 3, (16.0, 13.0, 10.5, 10.5)[second // 20])
    return scene


def d10() -> Scene:
    scene = Scene("llm-d/llm-d-autoscaling#380: without load every loop added one")
    scene.fleet(1)
    scene.steady(range(60), 1, 0.0)
    return scene


def d11() -> Scene:
    scene = Scene("llm-d/llm-d-autoscaling#1352: from 3 to 1 takes one window and two ticks, not two windows")
    scene.fleet(3)
    spec = {630: 2, 640: 1}
    for second in range(660):
        gone = 2 if second >= 640 else 1 if second >= 630 else 0
        for name in names(3)[gone:]:
            scene.engine(second, name, 8.0 if second < 310 else 0.0)
        if second in spec:
            scene.target(second, spec[second])
            scene.replica(second, names(3)[gone - 1], "gone")
    return scene


def d13() -> Scene:
    scene = Scene("skypilot-org/skypilot#4444: 19 highs, 1 low, 19 highs")
    scene.fleet(4)
    for tick in range(80):
        scene.steady(range(5 * tick, 5 * tick + 5), 4, 2.0 if tick % 20 == 19 else 8.0)
    return scene


def d18_overload() -> Scene:
    scene = Scene("ai-dynamo/dynamo PR#8861: 8 arrive, 4 complete, the queue grows: demand is what arrived")
    scene.fleet(1)
    for second in range(40):
        scene.engine(second, "chat-0", 8.0, waiting=4 * (second + 1), arrivals=8, completions=4)
    return scene


def d18_silence() -> Scene:
    scene = Scene(
        "ai-dynamo/dynamo PR#11624: 218 ms against 200 ms pinned two replicas after the traffic stopped",
        metrics=[{"name": "inflight_requests", "target": 8}, {"name": "ttft", "target": 200}],
    )
    scene.fleet(2)
    for second in range(640):
        busy = second < 310
        scene.steady([second], 2, 4.0 if busy else 0.0, ttft_ms=millis(218.0, 2 if busy else 0))
    return scene


def d20() -> Scene:
    scene = Scene("knative/serving#2141: a short queue turns requests away; they are demand")
    scene.fleet(1)
    scene.steady(range(30), 1, 8.0, rejections=2)
    return scene


def spike() -> Scene:
    scene = Scene("decisions.md: a tenfold spike of 2 s does not make tenfold replicas")
    scene.fleet(2)
    for second in range(80):
        scene.steady([second], 2, 80.0 if second in (40, 41) else 8.0)
    return scene


def dip() -> Scene:
    scene = Scene("decisions.md: a dip of 95 % for a minute changes nothing")
    scene.fleet(4)
    for second in range(420):
        scene.steady([second], 4, 0.4 if 310 <= second < 370 else 8.0)
    return scene


def e12() -> Scene:
    scene = Scene("llm-d/llm-d-autoscaling#163: the replica with the hottest cache is not the one to go")
    scene.fleet(3)
    for second in range(310):
        for name, cached in zip(names(3), (90, 10, 20), strict=True):
            scene.engine(second, name, 4.0, input_tokens=100, cached_tokens=cached)
    return scene


def f3() -> Scene:
    scene = Scene("ai-dynamo/dynamo#4420: someone edits the target; it is taken over and said")
    scene.fleet(2)
    scene.steady(range(60), 2, 8.0)
    scene.target(30, 5)
    return scene


def f9() -> Scene:
    scene = Scene(
        "kedacore/keda#5781: a queue of 20 at 2 a replica on 5 replicas needs 10, not 50 and not 2",
        metrics=[{"name": "queue_depth", "target": 2}],
    )
    scene.fleet(5)
    scene.steady(range(30), 5, 8.0, waiting=4)
    return scene


def h4() -> Scene:
    scene = Scene(
        "llm-d/llm-d-autoscaling#741: KV use 0.5, no queue, TTFT over its target: the latency decides",
        metrics=[
            {"name": "token_utilization", "target": 0.8},
            {"name": "queue_depth", "target": 5},
            {"name": "ttft", "target": 500},
        ],
    )
    scene.fleet(4)
    scene.steady(range(30), 4, 8.0, kv_cache_usage=0.5, ttft_ms=millis(1500.0))
    return scene


SCENES = {
    "B12": b12,
    "C2": c2,
    "C5": c5,
    "C10": c10,
    "C10-busy": c10_busy,
    "C12": c12,
    "C14": c14,
    "D8": d8,
    "D10": d10,
    "D11": d11,
    "D13": d13,
    "D18-overload": d18_overload,
    "D18-silence": d18_silence,
    "D20": d20,
    "E12": e12,
    "F3": f3,
    "F9": f9,
    "H4": h4,
    "spike": spike,
    "dip": dip,
}
