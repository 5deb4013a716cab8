"""Three questions to the Delta tables that are worth asking, as SQL of DataFusion."""

from headrace.demo.answers import Question

QUESTIONS = (
    Question(
        title="What did the engines do, in steps of 10 s?",
        sql="""\
SELECT endpoint, to_char(to_timestamp(at_s / 10 * 10), '%H:%M:%S') AS from_utc, count(*) AS samples,
       round(sum(running + waiting) / count(DISTINCT at_s), 1) AS in_flight, max(waiting) AS waiting_max,
       sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
FROM telemetry_requests GROUP BY endpoint, at_s / 10 ORDER BY endpoint, at_s / 10""",
    ),
    Question(
        title="When was more asked for, and because of what?",
        sql="""\
SELECT to_char(at, '%H:%M:%S') AS at_utc, endpoint, current, desired, bound, split_part(detail, ';', 1) AS because
FROM decisions_scaling WHERE action = 'scale_up' ORDER BY at, endpoint LIMIT 8""",
    ),
    Question(
        title="How long after its time did each tick fall due, and how long until its decision could be read?",
        sql="""\
SELECT d.endpoint, count(*) AS ticks, round(avg(s.processed_s - s.at_s), 2) AS due_after_s,
       round(max(s.processed_s - s.at_s), 2) AS due_after_max_s,
       round(avg(date_part('epoch', d.received_at) - s.at_s), 2) AS readable_after_s
FROM decisions_scaling d JOIN signals s ON s.endpoint = d.endpoint AND s.at_s = d.at_s
GROUP BY d.endpoint ORDER BY d.endpoint""",
    ),
)

TOKENS = Question(
    title="Tokens by endpoint",
    sql="""\
SELECT endpoint, count(*) AS samples, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
FROM telemetry_requests GROUP BY endpoint ORDER BY endpoint""",
)
