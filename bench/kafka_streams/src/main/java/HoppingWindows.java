import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The peer of the ingest bench: Kafka Streams keeps each endpoint's sums in hopping windows of 20 s and 300 s.
 *
 * <p>Arguments: bootstrap, topic, the number of messages in it, how many messages warm the JVM, and a file for the sums
 * of all windows that are kept at the end. The topic is read until the JVM is warm, and then once more from its start;
 * the CPU seconds of the whole process from the first record of that to its last are printed as JSON.
 */
public final class HoppingWindows {
  private static final Duration HOP = Duration.ofSeconds(5);
  private static final Duration[] SIZES = {Duration.ofSeconds(20), Duration.ofSeconds(300)};
  private static final Duration GRACE = Duration.ofSeconds(2);
  private static final Duration KEPT_LONGER = Duration.ofSeconds(10);
  private static final long POLL_MS = 10;

  private final String bootstrap;
  private final String topic;
  private final AtomicLong seen = new AtomicLong();
  private volatile double cpuSecondsAtFirst;

  private HoppingWindows(String bootstrap, String topic) {
    this.bootstrap = bootstrap;
    this.topic = topic;
  }

  public static void main(String[] arguments) throws IOException, InterruptedException {
    long messages = Long.parseLong(arguments[2]);
    for (long left = Long.parseLong(arguments[3]); left > 0; left -= messages) {
      new HoppingWindows(arguments[0], arguments[1]).read(Math.min(left, messages), null);
    }
    double cpuSeconds = new HoppingWindows(arguments[0], arguments[1]).read(messages, Path.of(arguments[4]));
    System.out.printf("{\"messages\": %d, \"cpu_s\": %.3f}%n", messages, cpuSeconds);
  }

  /** Reads the first `messages`; the CPU seconds that they took. The sums go to `file`, if there is one. */
  private double read(long messages, Path file) throws IOException, InterruptedException {
    try (KafkaStreams streams = new KafkaStreams(topology(), settings())) {
      streams.start();
      while (seen.get() < messages) {
        Thread.sleep(POLL_MS);
      }
      double cpuSeconds = cpuSeconds() - cpuSecondsAtFirst;
      if (file != null) {
        while (processed(streams) < messages) {
          Thread.sleep(POLL_MS);
        }
        write(streams, file);
      }
      return cpuSeconds;
    }
  }

  private Properties settings() {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "peer-" + ProcessHandle.current().pid() + "-" + System.nanoTime());
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("java.io.tmpdir"));
    settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    return settings;
  }

  private Topology topology() {
    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, Sample> samples =
        builder.stream(
            topic,
            Consumed.with(Serdes.String(), Serdes.serdeFrom((name, sample) -> null, new Sample.Reader()))
                .withTimestampExtractor((record, newest) -> ((Sample) record.value()).atSeconds() * 1000));
    samples.foreach((endpoint, sample) -> count());
    for (Duration size : SIZES) {
      samples
          .groupByKey()
          .windowedBy(TimeWindows.ofSizeAndGrace(size, GRACE).advanceBy(HOP))
          .aggregate(() -> new double[Sums.LENGTH], (endpoint, sample, sums) -> Sums.add(sample, sums), kept(size));
    }
    return builder.build();
  }

  /** In memory, without a changelog, and without the record cache in front, which costs more than it saves here. */
  private static Materialized<String, double[], WindowStore<Bytes, byte[]>> kept(Duration size) {
    return Materialized.<String, double[]>as(
            Stores.inMemoryWindowStore(nameOf(size), size.plus(KEPT_LONGER), size, false))
        .withKeySerde(Serdes.String())
        .withValueSerde(Sums.serde())
        .withLoggingDisabled()
        .withCachingDisabled();
  }

  private static String nameOf(Duration size) {
    return "window-" + size.toSeconds();
  }

  private void count() {
    if (seen.getAndIncrement() == 0) {
      cpuSecondsAtFirst = cpuSeconds();
    }
  }

  private static double cpuSeconds() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
  }

  /** Records that went through the whole topology. */
  private static double processed(KafkaStreams streams) {
    return streams.metrics().entrySet().stream()
        .filter(each -> each.getKey().group().equals("stream-thread-metrics"))
        .filter(each -> each.getKey().name().equals("process-total"))
        .mapToDouble(each -> (double) each.getValue().metricValue())
        .sum();
  }

  /** The fields' names, and one line a window: endpoint, length and start in seconds, and the sums; tabs between them. */
  private static void write(KafkaStreams streams, Path file) throws IOException {
    try (PrintWriter writer = new PrintWriter(Files.newBufferedWriter(file))) {
      writer.println(String.join("\t", Sample.FIELDS));
      for (Duration size : SIZES) {
        ReadOnlyWindowStore<String, double[]> store =
            streams.store(StoreQueryParameters.fromNameAndType(nameOf(size), QueryableStoreTypes.windowStore()));
        try (KeyValueIterator<Windowed<String>, double[]> windows = store.all()) {
          windows.forEachRemaining(
              each -> {
                writer.printf(
                    "%s\t%d\t%d", each.key.key(), size.toSeconds(), each.key.window().startTime().getEpochSecond());
                for (double sum : each.value) {
                  writer.print("\t" + sum);
                }
                writer.println();
              });
        }
      }
    }
  }
}
