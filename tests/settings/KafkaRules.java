import java.util.Map;
import java.util.Properties;
import java.util.Scanner;

/** Reads a line "key=value key=value" at a time and says whether Apache Kafka accepts a broker with these settings. */
public class KafkaRules {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String line = lines.nextLine();
            System.out.println(line + "\t" + (accepts(line) ? "accepted" : "refused"));
        }
    }

    private static boolean accepts(String line) {
        Properties settings = new Properties();
        settings.putAll(Map.of(
            "process.roles", "broker,controller",
            "node.id", "1",
            "controller.quorum.voters", "1@localhost:9093",
            "listeners", "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names", "CONTROLLER"));
        for (String assignment : line.split(" ")) {
            int equals = assignment.indexOf('=');
            settings.setProperty(assignment.substring(0, equals), assignment.substring(equals + 1));
        }
        try {
            new kafka.server.KafkaConfig(settings, false);
            return true;
        } catch (RuntimeException error) {
            return false;
        }
    }
}
