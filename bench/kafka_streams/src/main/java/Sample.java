import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadFeature;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Deserializer;

/** One RequestSample: its event time and its scalars in the order of {@link #FIELDS}. */
record Sample(long atSeconds, double[] values) {
  /** The scalars that Headrace's windows keep. */
  static final String[] FIELDS = {
    "arrivals", "completions", "errors", "rejections", "aborted", "input_tokens", "cached_tokens", "output_tokens",
    "images", "steps", "arrived_input_tokens", "preemptions", "running", "running_max", "waiting", "deferred",
    "arrived_output_tokens_estimate", "kv_cache_usage", "concurrency_limit", "active_sessions", "cpu",
    "streamed_fraction"
  };

  /** Reads a message once, token by token: no slower than binding to a class, and it skips what is not needed. */
  static final class Reader implements Deserializer<Sample> {
    private static final JsonFactory JSON =
        JsonFactory.builder().enable(StreamReadFeature.USE_FAST_DOUBLE_PARSER).build();
    private final Map<String, Integer> indexOf = new HashMap<>();

    Reader() {
      for (int index = 0; index < FIELDS.length; index++) {
        indexOf.put(FIELDS[index], index);
      }
    }

    @Override
    public Sample deserialize(String topic, byte[] message) {
      double[] values = new double[FIELDS.length];
      long atSeconds = -1;
      try (JsonParser parser = JSON.createParser(message)) {
        parser.nextToken();
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
          String name = parser.currentName();
          JsonToken token = parser.nextToken();
          if (token == JsonToken.START_OBJECT || token == JsonToken.START_ARRAY) {
            parser.skipChildren();
          } else if (token.isNumeric()) {
            Integer index = indexOf.get(name);
            if (index != null) {
              values[index] = parser.getDoubleValue();
            } else if (name.equals("at_s")) {
              atSeconds = parser.getLongValue();
            }
          }
        }
      } catch (IOException error) {
        throw new SerializationException(error);
      }
      return new Sample(atSeconds, values);
    }
  }
}
