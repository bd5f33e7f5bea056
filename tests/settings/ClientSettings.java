import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Prints what Apache Kafka's clients declare: client, name, type, default, range, importance. */
public class ClientSettings {
    public static void main(String[] arguments) {
        print("producer", ProducerConfig.configDef());
        print("consumer", ConsumerConfig.configDef());
        print("admin", AdminClientConfig.configDef());
    }

    private static void print(String client, ConfigDef declarations) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(declarations.configKeys()).values()) {
            String text = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "<required>";
            String range = key.validator == null ? "" : key.validator.toString().split("@")[0];
            System.out.println(String.join("\t", client, key.name, key.type.toString(), text == null ? "<none>" : text,
                range, key.importance.toString()));
        }
    }
}
