import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;

/** Prints what Apache Kafka declares: kind, name, type, default, range, importance, internal, update mode. */
public class KafkaSettings {
    private static Map<String, String> updateModes;

    public static void main(String[] arguments) throws Exception {
        Object dynamic = Class.forName("kafka.server.DynamicBrokerConfig$").getField("MODULE$").get(null);
        @SuppressWarnings("unchecked")
        var modes = (Map<String, String>) dynamic.getClass().getMethod("dynamicConfigUpdateModes").invoke(dynamic);
        updateModes = modes;
        print("broker", kafka.server.KafkaConfig.configDef());
        print("topic", org.apache.kafka.storage.internals.log.LogConfig.configDefCopy());
        var synonyms = org.apache.kafka.server.config.ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS;
        for (var entry : synonyms.entrySet()) {
            var names = entry.getValue().stream().map(synonym -> synonym.name()).toList();
            System.out.println(String.join("\t", "synonyms", entry.getKey(), String.join(",", names)));
        }
    }

    private static void print(String kind, ConfigDef declarations) {
        for (ConfigDef.ConfigKey key : declarations.configKeys().values()) {
            String text = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "<required>";
            String range = key.validator == null ? "" : key.validator.toString().split("@")[0];
            String mode = kind.equals("broker") ? updateModes.getOrDefault(key.name, "read-only") : "";
            System.out.println(String.join("\t", kind, key.name, key.type.toString(), text == null ? "<none>" : text,
                range, key.importance.toString(), String.valueOf(key.internalConfig), mode));
        }
    }
}
