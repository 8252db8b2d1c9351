import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.transport.Netty4Plugin;

/** A node whose network library is on its class path, because the class loader for plugins is not published. */
class ElasticsearchNode extends Node {
  private ElasticsearchNode(Environment environment) {
    super(environment, List.of(Netty4Plugin.class), true);
  }

  /** The arguments are its home folder, and the one of its settings. SIGTERM ends it. */
  public static void main(String[] arguments) throws Exception {
    Settings home = Settings.builder().put("path.home", arguments[0]).build();
    Environment environment = InternalSettingsPreparer.prepareEnvironment(home, Map.of(), Path.of(arguments[1]), () -> "");
    LogConfigurator.setNodeName(NODE_NAME_SETTING.get(environment.settings()));
    LogConfigurator.configure(environment);
    Node node = new ElasticsearchNode(environment);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> close(node)));
    node.start();
    new CountDownLatch(1).await();
  }

  private static void close(Node node) {
    try {
      node.close();
    } catch (IOException error) {
      error.printStackTrace();
    }
  }
}
