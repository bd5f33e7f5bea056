// Answers the same events as producer_state_script.py, with Apache Kafka's own producer state. One event a line on
// stdin; for each the answer and the state after it on stdout. The directory for snapshots is the argument.
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.StringJoiner;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

public class ProducerStateOracle {
    static ProducerStateManager manager;
    static long logEnd = 0;

    public static void main(String[] arguments) throws Exception {
        File root = new File(arguments[0]);
        int runs = 0;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.trim().split(" +");
            if (words[0].equals("begin")) {
                File directory = new File(root, "run-" + runs++);
                directory.mkdirs();
                manager = new ProducerStateManager(new TopicPartition("log", 0), directory, 900000,
                    new ProducerStateManagerConfig(Integer.parseInt(words[1]), false), Time.SYSTEM);
                logEnd = 0;
                out.append("begun\n");
                continue;
            }
            Map<String, String> values = new HashMap<>();
            for (String word : words)
                if (word.contains("="))
                    values.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
            String answer;
            try {
                answer = perform(words[0], values);
            } catch (Exception error) {
                answer = "error " + Errors.forException(error).name();
            }
            out.append(answer).append("\n").append(state()).append("\n");
        }
        System.out.print(out);
    }

    static long number(Map<String, String> values, String key) {
        return Long.parseLong(values.get(key));
    }

    static String perform(String event, Map<String, String> values) throws Exception {
        switch (event) {
            case "batch":
            case "marker":
                return append(event.equals("marker"), values);
            case "high-watermark":
                manager.onHighWatermarkUpdated(number(values, "offset"));
                return "done";
            case "log-start":
                manager.onLogStartOffsetIncremented(number(values, "offset"));
                return "done";
            case "expire":
                manager.removeExpiredProducers(number(values, "now"));
                return "done";
            case "snapshot":
                manager.takeSnapshot();
                return "done";
            case "reload":
                manager.truncateAndReload(number(values, "start"), number(values, "end"), number(values, "now"));
                logEnd = manager.mapEndOffset();
                return "done";
            case "start-anew":
                manager.truncateFullyAndStartAt(number(values, "offset"));
                logEnd = number(values, "offset");
                return "done";
            default:
                throw new IllegalStateException(event);
        }
    }

    static String append(boolean isMarker, Map<String, String> values) throws Exception {
        AppendOrigin origin = AppendOrigin.valueOf(values.get("origin").toUpperCase());
        long producerId = number(values, "producer");
        short epoch = (short) number(values, "epoch");
        long timestamp = number(values, "time");
        MemoryRecords records;
        if (isMarker) {
            EndTransactionMarker marker = new EndTransactionMarker(
                ControlRecordType.valueOf(values.get("type").toUpperCase()), (int) number(values, "coordinator"));
            records = MemoryRecords.withEndTransactionMarker(logEnd, timestamp, 0, producerId, epoch, marker);
        } else {
            SimpleRecord[] simple = new SimpleRecord[(int) number(values, "count")];
            for (int i = 0; i < simple.length; i++)
                simple[i] = new SimpleRecord(timestamp, "value".getBytes());
            records = MemoryRecords.withRecords(RecordBatch.MAGIC_VALUE_V2, logEnd, Compression.NONE,
                TimestampType.CREATE_TIME, producerId, epoch, (int) number(values, "sequence"), 0,
                values.get("transactional").equals("yes"), simple);
        }
        RecordBatch batch = records.batches().iterator().next();
        if (origin == AppendOrigin.CLIENT && !isMarker) {
            Optional<BatchMetadata> duplicate =
                manager.lastEntry(producerId).flatMap(entry -> entry.findDuplicateBatch(batch));
            if (duplicate.isPresent())
                return "duplicate " + duplicate.get().firstOffset() + ".." + duplicate.get().lastOffset;
        }
        ProducerAppendInfo info = manager.prepareUpdate(producerId, origin);
        Optional<CompletedTxn> completed = info.append(batch, Optional.of(new LogOffsetMetadata(batch.baseOffset())));
        manager.update(info);
        String answer = "appended " + batch.baseOffset() + ".." + batch.lastOffset();
        if (completed.isPresent()) {
            CompletedTxn txn = completed.get();
            long lastStable = manager.lastStableOffset(txn);
            manager.completeTxn(txn);
            answer += " ends " + txn.firstOffset + ".." + txn.lastOffset + (txn.isAborted ? " aborted" : " committed")
                + " stable " + lastStable;
        }
        manager.updateMapEndOffset(batch.lastOffset() + 1);
        logEnd = batch.lastOffset() + 1;
        return answer;
    }

    static String state() {
        StringJoiner producers = new StringJoiner("; ");
        for (ProducerStateEntry entry : new TreeMap<>(manager.activeProducers()).values()) {
            StringJoiner batches = new StringJoiner(",", "[", "]");
            for (BatchMetadata batch : entry.batchMetadata())
                batches.add(batch.firstSeq() + ".." + batch.lastSeq + "@" + batch.firstOffset() + ".." + batch.lastOffset);
            producers.add(entry.producerId() + " epoch " + entry.producerEpoch() + " coordinator "
                + entry.coordinatorEpoch() + " time " + entry.lastTimestamp() + " transaction "
                + text(entry.currentTxnFirstOffset()) + " " + batches);
        }
        OptionalLong unstable = manager.firstUnstableOffset().map(found -> OptionalLong.of(found.messageOffset))
            .orElse(OptionalLong.empty());
        return "  end " + manager.mapEndOffset() + " undecided " + text(manager.firstUndecidedOffset()) + " unstable "
            + text(unstable) + " snapshots " + text(manager.oldestSnapshotOffset()) + ".."
            + text(manager.latestSnapshotOffset()) + " | " + (producers.length() == 0 ? "nobody" : producers);
    }

    static String text(OptionalLong value) {
        return value.isPresent() ? Long.toString(value.getAsLong()) : "-";
    }
}
