// Apache Kafka's own group coordinator behind lines of JSON: an event comes in, its records and its answer go out.
//
// It stands in Kafka's package because the parts it drives are visible there only. Time is virtual, timers and
// background tasks run when an event says so, and the cluster is what the last "topics" event said.
package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.common.network.*;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.*;
import org.apache.kafka.common.security.auth.*;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.coordinator.common.runtime.*;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.image.*;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.timeline.SnapshotRegistry;

public class GroupOracle {
    static final ObjectMapper JSON = new ObjectMapper();

    static class VirtualTime implements Time {
        long now = 1_700_000_000_000L;
        public long milliseconds() { return now; }
        public long nanoseconds() { return now * 1_000_000; }
        public long hiResClockMs() { return now; }
        public void sleep(long ms) { now += ms; }
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) { }
    }

    record Due(long at, long order, CoordinatorTimer.TimeoutOperation<Void, CoordinatorRecord> operation) { }

    record Task(CoordinatorExecutor.TaskRunnable<Object> work, CoordinatorExecutor.TaskOperation<CoordinatorRecord, Object> then) { }

    static class Timers implements CoordinatorTimer<Void, CoordinatorRecord> {
        final VirtualTime time;
        final Map<String, Due> timers = new HashMap<>();
        long order = 0;
        Timers(VirtualTime time) { this.time = time; }
        public void schedule(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<Void, CoordinatorRecord> operation) {
            timers.put(key, new Due(time.now + unit.toMillis(delay), order++, operation));
        }
        public void schedule(String key, long delay, TimeUnit unit, boolean retry, long backoff, TimeoutOperation<Void, CoordinatorRecord> operation) {
            schedule(key, delay, unit, retry, operation);
        }
        public void scheduleIfAbsent(String key, long delay, TimeUnit unit, boolean retry, TimeoutOperation<Void, CoordinatorRecord> operation) {
            if (!timers.containsKey(key)) schedule(key, delay, unit, retry, operation);
        }
        public void cancel(String key) { timers.remove(key); }
    }

    static class Tasks implements CoordinatorExecutor<CoordinatorRecord> {
        final Map<String, Task> tasks = new LinkedHashMap<>();
        @SuppressWarnings("unchecked")
        public <R> boolean schedule(String key, TaskRunnable<R> work, TaskOperation<CoordinatorRecord, R> then) {
            return tasks.putIfAbsent(key, new Task((TaskRunnable<Object>) work, (TaskOperation<CoordinatorRecord, Object>) then)) == null;
        }
        public boolean isScheduled(String key) { return tasks.containsKey(key); }
        public void cancel(String key) { tasks.remove(key); }
    }

    VirtualTime time;
    Timers timers;
    Tasks tasks;
    SnapshotRegistry snapshots;
    GroupConfigManager groupConfigs;
    GroupCoordinatorShard shard;
    MetadataImage image;
    long offset;
    ArrayNode records;
    ArrayNode answers;

    void reset(JsonNode event) {
        Map<String, String> settings = new HashMap<>();
        event.path("config").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
        LogContext log = new LogContext();
        time = new VirtualTime();
        timers = new Timers(time);
        tasks = new Tasks();
        snapshots = new SnapshotRegistry(log);
        groupConfigs = new GroupConfigManager(settings);
        GroupCoordinatorConfig config = GroupCoordinatorConfig.fromProps(settings);
        GroupCoordinatorShard.Builder builder = new GroupCoordinatorShard.Builder(config, groupConfigs);
        builder.withAuthorizerPlugin(Optional.empty());
        shard = builder.withLogContext(log).withSnapshotRegistry(snapshots).withTime(time).withTimer(timers).withExecutor(tasks)
            .withCoordinatorMetrics(new GroupCoordinatorMetrics()).withTopicPartition(new TopicPartition("__consumer_offsets", 0)).build();
        offset = 0;
        image = new MetadataDelta(MetadataImage.EMPTY).apply(new MetadataProvenance(0, 0, 0, true));
        topics(event);
        shard.onLoaded(image);
    }

    void topics(JsonNode event) {
        MetadataDelta delta = new MetadataDelta(image);
        if (!event.path("brokers").isMissingNode()) {
            event.path("brokers").fields().forEachRemaining(e -> delta.replay(new RegisterBrokerRecord()
                .setBrokerId(Integer.parseInt(e.getKey())).setFenced(false).setRack(e.getValue().isNull() ? null : e.getValue().asText())));
        }
        JsonNode wanted = event.path("topics");
        for (TopicImage topic : image.topics().topicsById().values()) {
            JsonNode there = wanted.path(topic.name());
            if (there.isMissingNode() || !there.path("id").asText().equals(topic.id().toString()))
                delta.replay(new RemoveTopicRecord().setTopicId(topic.id()));
        }
        wanted.fields().forEachRemaining(e -> {
            Uuid id = Uuid.fromString(e.getValue().path("id").asText());
            TopicImage present = image.topics().getTopic(id);
            int count = 0;
            if (present == null) delta.replay(new TopicRecord().setName(e.getKey()).setTopicId(id));
            else count = present.partitions().size();
            for (int number = count; number < e.getValue().path("partitions").asInt(); number++) {
                List<Integer> replicas = new ArrayList<>();
                for (JsonNode replica : e.getValue().path("replicas").path(number)) replicas.add(replica.asInt());
                if (replicas.isEmpty()) replicas.add(0);
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(number).setReplicas(replicas).setIsr(replicas)
                    .setLeader(replicas.get(0)));
            }
        });
        image = delta.apply(new MetadataProvenance(image.provenance().lastContainedOffset() + 1, 0, 0, true));
        if (event.path("op").asText().equals("topics")) shard.onNewMetadataImage(image, delta);
    }

    RequestContext context(JsonNode event, ApiKeys key) throws Exception {
        short version = (short) event.path("version").asInt();
        RequestHeader header = new RequestHeader(key, version, event.path("client").asText("client"), 0);
        InetAddress host = InetAddress.getByName(event.path("host").asText("127.0.0.1"));
        return new RequestContext(header, "1", host, KafkaPrincipal.ANONYMOUS, ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT),
            SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
    }

    <T> T apply(CoordinatorResult<T, CoordinatorRecord> result) {
        for (CoordinatorRecord record : result.records()) {
            records.add(describe(record));
            if (result.replayRecords()) shard.replay(offset, -1, (short) -1, record);
            offset++;
        }
        if (result.appendFuture() != null) result.appendFuture().complete(null);
        return result.response();
    }

    ObjectNode describe(CoordinatorRecord record) {
        ObjectNode node = JSON.createObjectNode();
        node.put("type", record.key().apiKey());
        node.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
        ApiMessageAndVersion value = record.value();
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        node.put("keyBytes", HexFormat.of().formatHex(serde.serializeKey(record)));
        if (value == null) {
            node.putNull("value");
            node.putNull("valueBytes");
        } else {
            node.put("valueVersion", value.version());
            node.set("value", CoordinatorRecordJsonConverters.writeRecordValueAsJson(value.message(), value.version()));
            node.put("valueBytes", HexFormat.of().formatHex(serde.serializeValue(record)));
        }
        return node;
    }

    void load(JsonNode event) {
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        for (JsonNode node : event.path("records")) {
            byte[] key = HexFormat.of().parseHex(node.path(0).asText());
            byte[] value = node.path(1).isNull() ? null : HexFormat.of().parseHex(node.path(1).asText());
            shard.replay(offset++, -1, (short) -1, serde.deserialize(java.nio.ByteBuffer.wrap(key), value == null ? null : java.nio.ByteBuffer.wrap(value)));
        }
        shard.onLoaded(image);
    }

    void advance(long until) {
        while (true) {
            Map.Entry<String, Due> next = timers.timers.entrySet().stream().filter(e -> e.getValue().at() <= until)
                .min(Comparator.comparing((Map.Entry<String, Due> e) -> e.getValue().at()).thenComparing(e -> e.getValue().order())).orElse(null);
            if (next == null) break;
            timers.timers.remove(next.getKey());
            time.now = Math.max(time.now, next.getValue().at());
            apply(next.getValue().operation().generateRecords());
        }
        time.now = until;
    }

    void answer(String reply, JsonNode response) {
        ObjectNode node = JSON.createObjectNode();
        node.put("reply", reply);
        node.set("response", response);
        answers.add(node);
    }

    JsonNode run(JsonNode event) throws Throwable {
        JsonNode body = event.path("request");
        short version = (short) event.path("version").asInt();
        String reply = event.path("reply").asText("");
        switch (event.path("op").asText()) {
            case "reset": reset(event); return null;
            case "topics": topics(event); return null;
            case "load": load(event); return null;
            case "advance": advance(time.now + event.path("ms").asLong()); return null;
            case "tasks":
                while (!tasks.tasks.isEmpty()) {
                    Map.Entry<String, Task> next = tasks.tasks.entrySet().iterator().next();
                    Object value = next.getValue().work().run();
                    tasks.tasks.remove(next.getKey());
                    apply(next.getValue().then().onComplete(value, null));
                }
                return null;
            case "timers": {
                ObjectNode node = JSON.createObjectNode();
                new TreeMap<>(timers.timers).forEach((key, due) -> node.put(key, due.at() - time.now));
                return node;
            }
            case "group-config": {
                Properties properties = new Properties();
                event.path("config").fields().forEachRemaining(e -> properties.put(e.getKey(), e.getValue().asText()));
                groupConfigs.updateGroupConfig(event.path("group").asText(), properties);
                return null;
            }
            case "heartbeat": {
                ConsumerGroupHeartbeatRequestData request = ConsumerGroupHeartbeatRequestDataJsonConverter.read(body, version);
                ConsumerGroupHeartbeatResponseData response = apply(shard.consumerGroupHeartbeat(context(event, ApiKeys.CONSUMER_GROUP_HEARTBEAT), request));
                return ConsumerGroupHeartbeatResponseDataJsonConverter.write(response, version);
            }
            case "describe": {
                ArrayNode list = JSON.createArrayNode();
                for (ConsumerGroupDescribeResponseData.DescribedGroup group : shard.consumerGroupDescribe(strings(event.path("groups")), offset))
                    list.add(ConsumerGroupDescribeResponseDataJsonConverter.write(new ConsumerGroupDescribeResponseData().setGroups(List.of(group)), (short) 1).path("groups").path(0));
                return list;
            }
            case "describe-classic": {
                ArrayNode list = JSON.createArrayNode();
                for (DescribeGroupsResponseData.DescribedGroup group : shard.describeGroups(context(event, ApiKeys.DESCRIBE_GROUPS), strings(event.path("groups")), offset))
                    list.add(DescribeGroupsResponseDataJsonConverter.write(new DescribeGroupsResponseData().setGroups(List.of(group)), version).path("groups").path(0));
                return list;
            }
            case "list": {
                ArrayNode list = JSON.createArrayNode();
                ListGroupsResponseData all = new ListGroupsResponseData().setGroups(shard.listGroups(strings(event.path("states")), strings(event.path("types")), offset));
                ListGroupsResponseDataJsonConverter.write(all, (short) 5).path("groups").forEach(list::add);
                return list;
            }
            case "delete": {
                DeleteGroupsResponseData all = new DeleteGroupsResponseData().setResults(apply(shard.deleteGroups(context(event, ApiKeys.DELETE_GROUPS), strings(event.path("groups")))));
                return DeleteGroupsResponseDataJsonConverter.write(all, (short) 2);
            }
            case "commit": {
                OffsetCommitRequestData request = OffsetCommitRequestDataJsonConverter.read(body, version);
                return OffsetCommitResponseDataJsonConverter.write(apply(shard.commitOffset(context(event, ApiKeys.OFFSET_COMMIT), request)), version);
            }
            case "fetch": {
                OffsetFetchRequestData request = OffsetFetchRequestDataJsonConverter.read(body, version);
                OffsetFetchResponseData all = new OffsetFetchResponseData();
                for (OffsetFetchRequestData.OffsetFetchRequestGroup group : request.groups())
                    all.groups().add(group.topics() == null ? shard.fetchAllOffsets(group, offset) : shard.fetchOffsets(group, offset));
                return OffsetFetchResponseDataJsonConverter.write(all, version);
            }
            case "join": {
                CompletableFuture<JoinGroupResponseData> future = new CompletableFuture<>();
                future.whenComplete((response, error) -> answer(reply, response == null ? JSON.createObjectNode().put("error", Errors.forException(error).name())
                    : JoinGroupResponseDataJsonConverter.write(response, version)));
                apply(shard.classicGroupJoin(context(event, ApiKeys.JOIN_GROUP), JoinGroupRequestDataJsonConverter.read(body, version), future));
                return null;
            }
            case "sync": {
                CompletableFuture<SyncGroupResponseData> future = new CompletableFuture<>();
                future.whenComplete((response, error) -> answer(reply, response == null ? JSON.createObjectNode().put("error", Errors.forException(error).name())
                    : SyncGroupResponseDataJsonConverter.write(response, version)));
                apply(shard.classicGroupSync(context(event, ApiKeys.SYNC_GROUP), SyncGroupRequestDataJsonConverter.read(body, version), future));
                return null;
            }
            case "classic-heartbeat":
                return HeartbeatResponseDataJsonConverter.write(apply(shard.classicGroupHeartbeat(context(event, ApiKeys.HEARTBEAT), HeartbeatRequestDataJsonConverter.read(body, version))), version);
            case "leave":
                return LeaveGroupResponseDataJsonConverter.write(apply(shard.classicGroupLeave(context(event, ApiKeys.LEAVE_GROUP), LeaveGroupRequestDataJsonConverter.read(body, version))), version);
            case "assign": return assign(event);
            case "regex":
                Utils.throwIfRegularExpressionIsInvalid(event.path("pattern").asText());
                return null;
            default: throw new IllegalArgumentException(event.toString());
        }
    }

    // Runs one of Kafka's assignors; members and topics are walked in the order of their names where Kafka leaves it open.
    static JsonNode assign(JsonNode event) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        event.path("members").fields().forEachRemaining(e -> {
            Set<Uuid> topics = new LinkedHashSet<>();
            strings(e.getValue().path("topics")).forEach(text -> topics.add(Uuid.fromString(text)));
            Map<Uuid, Set<Integer>> partitions = new LinkedHashMap<>();
            e.getValue().path("assignment").fields().forEachRemaining(entry -> {
                Set<Integer> numbers = new TreeSet<>();
                entry.getValue().forEach(number -> numbers.add(number.asInt()));
                partitions.put(Uuid.fromString(entry.getKey()), numbers);
                numbers.forEach(number -> owners.computeIfAbsent(Uuid.fromString(entry.getKey()), id -> new HashMap<>()).put(number, e.getKey()));
            });
            JsonNode instance = e.getValue().path("instance");
            members.put(e.getKey(), new MemberSubscriptionAndAssignmentImpl(Optional.empty(),
                instance.isTextual() ? Optional.of(instance.asText()) : Optional.empty(), topics, new Assignment(partitions)));
        });
        SubscriptionType type = event.path("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) { return event.path("topics").path(id.toString()).asInt(-1); }
            public Set<String> racksForPartition(Uuid id, int partition) { return Set.of(); }
        };
        ConsumerGroupPartitionAssignor assignor = event.path("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        ObjectNode out = JSON.createObjectNode();
        assignor.assign(new GroupSpecImpl(members, type, owners), topics).members().forEach((member, assigned) -> {
            ObjectNode node = out.putObject(member);
            assigned.partitions().forEach((id, numbers) -> {
                ArrayNode list = node.putArray(id.toString());
                new TreeSet<>(numbers).forEach(list::add);
            });
        });
        return out;
    }

    static List<String> strings(JsonNode node) {
        List<String> list = new ArrayList<>();
        node.forEach(item -> list.add(item.asText()));
        return list;
    }

    ObjectNode perform(JsonNode event) throws Throwable {
        ObjectNode out = JSON.createObjectNode();
        records = JSON.createArrayNode();
        answers = JSON.createArrayNode();
        long before = offset;
        if (snapshots != null) {
            snapshots.deleteSnapshotsUpTo(before);
            snapshots.idempotentCreateSnapshot(before);
        }
        try {
            JsonNode response = run(event);
            if (response != null) out.set("response", response);
        } catch (org.apache.kafka.common.errors.ApiException error) {
            out.put("error", Errors.forException(error).name());
            out.put("message", error.getMessage());
            snapshots.revertToSnapshot(before);
            offset = before;
        }
        out.set("records", records);
        out.set("answers", answers);
        return out;
    }

    public static void main(String[] arguments) throws Throwable {
        PrintStream out = new PrintStream(System.out, true);
        System.setOut(System.err);
        GroupOracle oracle = new GroupOracle();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ArrayNode results = JSON.createArrayNode();
            try {
                for (JsonNode event : JSON.readTree(line)) results.add(oracle.perform(event));
                out.println(results);
            } catch (Throwable error) {
                error.printStackTrace();
                out.println(JSON.createObjectNode().put("crash", error.toString()));
            }
        }
    }
}
