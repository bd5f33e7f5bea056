import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

import org.apache.kafka.common.utils.Exit;

import static java.nio.charset.StandardCharsets.UTF_8;

/**
 * Runs Kafka's command line tools one after the other in one JVM, because starting a JVM takes longer than the tool.
 *
 * A line of input is the tool's class, what it reads as standard input, the seconds it may take, and its arguments, each in
 * base64 and parted by blanks. A line of output is the exit status (or "timeout") and what was printed to standard output and
 * standard error, in the same form. The status is 1 where the tool's main method threw.
 */
public class ToolRunner {
    private static final class Exited extends Error {
        Exited() {
            super(null, null, false, false);
        }
    }

    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static Integer exitStatus;

    public static void main(String[] unused) throws Exception {
        Exit.setExitProcedure((status, message) -> exit(status));
        Exit.setHaltProcedure((status, message) -> exit(status));
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        PrintStream answers = System.out;
        PrintStream errors = System.err;
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] fields = Arrays.stream(line.split(" ")).map(ToolRunner::decoded).toArray(String[]::new);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            ByteArrayOutputStream complained = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(fields[1].getBytes(UTF_8)));
            System.setOut(new PrintStream(printed, true, UTF_8));
            System.setErr(new PrintStream(complained, true, UTF_8));
            String status = run(fields[0], Arrays.copyOfRange(fields, 3, fields.length), Integer.parseInt(fields[2]));
            System.setOut(answers);
            System.setErr(errors);
            answers.println(status + " " + encoded(printed) + " " + encoded(complained));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String run(String tool, String[] arguments, int seconds) throws Exception {
        FutureTask<Integer> task = new FutureTask<>(() -> call(tool, arguments));
        Thread thread = new Thread(task, tool);
        thread.setDaemon(true);
        thread.start();
        try {
            return String.valueOf(task.get(seconds, TimeUnit.SECONDS));
        } catch (TimeoutException e) {
            for (StackTraceElement frame : thread.getStackTrace())
                System.err.println("    at " + frame);
            thread.interrupt();
            return "timeout";
        } catch (ExecutionException e) {
            e.getCause().printStackTrace();
            return "1";
        }
    }

    /** Ends the tool. Some catch what is thrown here and exit again, so the first status counts. */
    private static void exit(int status) {
        if (exitStatus == null)
            exitStatus = status;
        throw new Exited();
    }

    private static int call(String tool, String[] arguments) throws Exception {
        HOOKS.clear();
        exitStatus = null;
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Exited)) {
                e.getCause().printStackTrace();
                exitStatus = exitStatus == null ? Integer.valueOf(1) : exitStatus;
            }
        }
        List.copyOf(HOOKS).forEach(Runnable::run);
        return exitStatus == null ? 0 : exitStatus;
    }

    private static String decoded(String field) {
        return new String(Base64.getDecoder().decode(field.equals("-") ? "" : field), UTF_8);
    }

    private static String encoded(ByteArrayOutputStream bytes) {
        String text = Base64.getEncoder().encodeToString(bytes.toByteArray());
        return text.isEmpty() ? "-" : text;
    }
}
