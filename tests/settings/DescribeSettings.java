import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigResource;

/** Changes some settings of a broker and prints all that it then says of them. Arguments: host:port, broker id. */
public class DescribeSettings {
    public static void main(String[] arguments) throws Exception {
        var broker = new ConfigResource(ConfigResource.Type.BROKER, arguments[1]);
        var defaults = new ConfigResource(ConfigResource.Type.BROKER, "");
        var plain = new ConfigResource(ConfigResource.Type.TOPIC, "plain");
        var special = new ConfigResource(ConfigResource.Type.TOPIC, "special");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            var overrides = Map.of("segment.ms", "777777", "cleanup.policy", "delete,compact", "compression.type", " gzip ");
            admin.createTopics(List.of(new NewTopic("plain", 1, (short) 1),
                new NewTopic("special", 1, (short) 1).configs(overrides))).all().get();
            print(admin, "static", broker, plain, special);
            admin.incrementalAlterConfigs(Map.of(
                defaults, List.of(set("log.retention.ms", "333333333"), set("message.max.bytes", "2000000"),
                    set("leader.replication.throttled.rate", "1000")),
                broker, List.of(set("message.max.bytes", "2100000"), set("no.such.key", "1")))).all().get();
            Thread.sleep(1000);
            print(admin, "dynamic", broker, defaults, plain, special);
        }
    }

    private static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    private static void print(Admin admin, String stage, ConfigResource... resources) throws Exception {
        var options = new DescribeConfigsOptions().includeSynonyms(true);
        for (var resource : resources) {
            for (var entry : admin.describeConfigs(List.of(resource), options).all().get().get(resource).entries()) {
                var synonyms = entry.synonyms().stream().map(s -> s.name() + "=" + s.value() + "=" + s.source()).toList();
                String what = resource.type() == ConfigResource.Type.TOPIC ? resource.name()
                    : resource.name().isEmpty() ? "defaults" : "broker";
                System.out.println(String.join("\t", stage, what, entry.name(), String.valueOf(entry.value()),
                    entry.source().toString(), entry.type().toString(), entry.isReadOnly() ? "read-only" : "dynamic",
                    entry.isSensitive() ? "sensitive" : "shown", String.join(";", synonyms)));
            }
        }
    }
}
