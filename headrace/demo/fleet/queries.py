"""Three questions to the Delta tables that are worth asking, as SQL of DataFusion."""

from headrace.demo.answers import Question

QUESTIONS = (
    Question(
        title="When was the number of replicas changed, and because of what?",
        sql="""\
SELECT to_char(d.at, '%H:%M:%S') AS at_utc, d.endpoint, d.current, d.desired, d.bound, o.result AS actuator,
       split_part(d.detail, ';', 1) AS because
FROM decisions_scaling d LEFT JOIN outcomes o ON o.decision_id = d.decision_id
WHERE d.action <> 'hold' ORDER BY d.at, d.endpoint LIMIT 12""",
    ),
    Question(
        title="How long did the replicas of each endpoint take to start?",
        sql="""\
SELECT endpoint, count(*) AS starts, round(avg(ready_s), 1) AS mean_s, max(ready_s) AS longest_s
FROM (SELECT endpoint, replica, min(CASE state WHEN 'ready' THEN at_s END)
             - min(CASE state WHEN 'requested' THEN at_s END) AS ready_s
      FROM telemetry_replicas GROUP BY endpoint, replica, epoch) WHERE ready_s IS NOT NULL
GROUP BY endpoint ORDER BY endpoint""",
    ),
    Question(
        title="How many event seconds after its time was each decision due, and carried out?",
        sql="""\
SELECT d.endpoint, count(*) AS decisions, round(avg(s.processed_s - s.at_s), 1) AS due_after_s,
       round(avg(o.at_s - d.at_s), 1) AS carried_out_after_s, max(o.at_s - d.at_s) AS carried_out_after_max_s
FROM decisions_scaling d JOIN signals s ON s.endpoint = d.endpoint AND s.at_s = d.at_s
JOIN outcomes o ON o.decision_id = d.decision_id AND o.result = 'applied'
GROUP BY d.endpoint ORDER BY d.endpoint""",
    ),
)
