import java.nio.ByteBuffer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** Sums of one endpoint's samples in one window: those of {@link Sample#FIELDS}, and last how many samples they are of. */
final class Sums {
  static final int LENGTH = Sample.FIELDS.length + 1;

  private Sums() {}

  static double[] add(Sample sample, double[] sums) {
    double[] values = sample.values();
    for (int index = 0; index < values.length; index++) {
      sums[index] += values[index];
    }
    sums[values.length]++;
    return sums;
  }

  static Serde<double[]> serde() {
    return Serdes.serdeFrom((topic, sums) -> write(sums), (topic, bytes) -> read(bytes));
  }

  private static byte[] write(double[] sums) {
    byte[] bytes = new byte[Double.BYTES * sums.length];
    ByteBuffer.wrap(bytes).asDoubleBuffer().put(sums);
    return bytes;
  }

  private static double[] read(byte[] bytes) {
    if (bytes == null) {
      return null;
    }
    double[] sums = new double[bytes.length / Double.BYTES];
    ByteBuffer.wrap(bytes).asDoubleBuffer().get(sums);
    return sums;
  }
}
