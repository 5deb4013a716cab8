"""Fails when a method that the shell overrides, or relies on inside, is another than the one it was written against.

Then read the new one beside streams/shell (batching_consumer, consumer_thread, fetch_times, fetch_waits, fetch_watch,
fetched, faust_app, record_batches, transactions) and wire/first_metadata, renew the digest.
"""

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.fetcher import Fetcher, FetchError, FetchResult, PartitionRecords
from aiokafka.consumer.subscription_state import TopicPartitionState
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator, MessageBatch
from aiokafka.producer.producer import AIOKafkaProducer
from aiokafka.producer.sender import Sender
from aiokafka.producer.transaction_manager import TransactionManager
from aiokafka.protocol.fetch import FetchRequest
from faust.app.base import App
from faust.tables.recovery import Recovery
from faust.transport.consumer import Consumer as BaseConsumer
from faust.transport.consumer import ThreadDelegateConsumer
from faust.transport.drivers import aiokafka as driver
from mode.threads import ServiceThread

PINNED: dict[Callable[..., Any], str] = {
    BaseConsumer.__init__: "302410d59e6972d1",
    BaseConsumer.perform_seek: "0e8c130ff4b0afd8",
    BaseConsumer.getmany: "4b168d84882a70d6",
    BaseConsumer._wait_next_records: "6218e1969a636b3f",
    BaseConsumer._drain_messages: "44a2500309e83c63",
    BaseConsumer._new_offset: "1d2c7ea89a7ad4f1",
    BaseConsumer._add_gap: "4df2573ded7c1c2c",
    BaseConsumer.ack: "5fcf41cf45153475",
    BaseConsumer._commit_tps: "a20e230b05ae8b15",
    BaseConsumer._commit_offsets: "1a69799041188441",
    BaseConsumer.on_partitions_revoked: "d04b7ae72c6fc206",
    ThreadDelegateConsumer._getmany: "f9d47aa9010b5ff2",
    driver.Consumer._new_consumer_thread: "0870ec53dea75083",
    driver.Consumer._to_message: "7c24f6511b2fcef7",
    driver.AIOKafkaConsumerThread._create_worker_consumer: "c2701bfc3e6f6cad",
    driver.AIOKafkaConsumerThread.on_thread_stop: "8dfc004e258b6c25",
    driver.AIOKafkaConsumerThread._commit: "932852ce7a23f658",
    driver.AIOKafkaConsumerThread._fetch_records: "39a2c6c79fc1455a",
    ServiceThread._keepalive2: "3bc84ca2133f05b0",
    ServiceThread._wakeup_timer_in_thread: "25a1647d37d56763",
    driver.Producer._settings_auth: "6d47a0b8599c573e",
    App._new_transport: "42db531312dd776f",
    App._create_directories: "a9f571c3b04abec3",
    App._on_partitions_revoked: "d5c895bbe57dc73a",
    App._on_partitions_assigned: "de932b7927db85b3",
    Recovery._resume_streams: "d986a6710c1aca98",
    driver.AIOKafkaConsumerThread.getmany: "26fc5fc9f3b667e1",
    Fetcher.fetched_records: "be4348896b9b66af",
    Fetcher._create_fetch_waiter: "61d840568746477e",
    Fetcher._notify: "d3a30d94f34fd3a0",
    FetchResult.getall: "3e717e30de5068d5",
    FetchResult.check_assignment: "b5340df67e3f330f",
    FetchResult.has_more: "a25ee8ab93405df6",
    FetchResult._update_position: "83fb1473bf10027b",
    FetchError.check_raise: "f03628e12d3f8d4e",
    PartitionRecords.__init__: "8ec1c2ae6ea1af87",
    PartitionRecords._unpack_records: "b803e6d46480732c",
    Fetcher._proc_fetch_request: "59bf948fff47eed5",
    Fetcher._get_actions_per_node: "1dab2cf937d165d0",
    FetchRequest.__init__: "f31b6b74cc94dae4",
    FetchRequest.build: "952ef0f41192efc3",
    TopicPartitionState.seek: "c20b56d7ba7b2872",
    TransactionManager.is_fatal_error: "7ac04ee86cfa38d6",
    TransactionManager.wait_for_transaction_end: "67dc578aafc32bbf",
    MessageAccumulator._pop_batch: "41cc98a298ef2628",
    Sender._fail_all: "5a67e3b6f87be0c5",
    AIOKafkaProducer.stop: "43ef97147111893b",
    MessageAccumulator.fail_all: "f1e12e8100bfcb8c",
    MessageBatch.failure: "719b2122c318e955",
    MessageAccumulator.add_batch: "5ed1c5b1367ad854",
    MessageAccumulator.create_builder: "13dcd0ebf6b9eb44",
    BatchBuilder.append: "657d76f55157d9ca",
    AIOKafkaProducer._serialize: "eb7723aa42b2a40e",
    AIOKafkaProducer.create_batch: "c4efda4bb7a09741",
    AIOKafkaProducer.send_batch: "bf42b0f0c5c0646d",
    AIOKafkaProducer.partitions_for: "0d526b6cfcfdfc00",
    BaseConsumer.verify_all_partitions_active: "4e0e46f5c297305d",
    AIOKafkaClient.bootstrap: "198943b004e55849",
}


@pytest.mark.parametrize("method", PINNED, ids=lambda method: method.__qualname__)
def test_overridden_method_is_the_one_we_know(method: Callable[..., Any]) -> None:
    assert _digest(method) == PINNED[method]


def _digest(method: Callable[..., Any]) -> str:
    return hashlib.sha256(inspect.getsource(method).encode()).hexdigest()[:16]
