/** The entry of the kubectl plugin `kubectl-sluice`, which `knative/image/plugin.ts` makes one file of. */
import { styleText } from "node:util";
import { escapeLines } from "../../functions/shared/base/escape-control.ts";
import { connect } from "../../functions/shared/kubernetes/client.ts";
import manifest from "../../package.json" with { type: "json" };
import { namespaceInPod } from "./arguments.ts";
import { run } from "./command.ts";
import { startPortForward } from "./port-forward.ts";
import { connectionTo, type Terminal } from "./terminal.ts";

const terminal: Terminal = {
  async connect(place) {
    const { kubeconfig, context } = place;
    const cluster = await connect({
      userAgent: `kubectl-sluice/${manifest.version}`,
      ...(kubeconfig === undefined ? {} : { kubeconfig }),
      ...(context === undefined ? {} : { context }),
    });
    const { namespace: own, isInPod } = cluster;
    const namespace = isInPod ? namespaceInPod(process.env.NAMESPACE, own) : own;
    return connectionTo(cluster, namespace);
  },
  out: (text) => void process.stdout.write(text),
  err: (line) => console.error(`kubectl-sluice: ${line}`),
  // Plain where standard output is no terminal, or NO_COLOR is set.
  emphasize: (text) => styleText("bold", text, { stream: process.stdout }),
  screen: () => (process.stdout.isTTY ? { columns: process.stdout.columns, rows: process.stdout.rows } : undefined),
  forward: startPortForward,
  interrupted() {
    const ending = new AbortController();
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => ending.abort());
    return ending.signal;
  },
};

// A reader that has enough, such as `head`, is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(0);
});

run(process.argv.slice(2), terminal).then(
  (code) => {
    process.exitCode = code;
  },
  (error: unknown) => {
    // A bug may have text of objects in its message.
    console.error(escapeLines(String(error instanceof Error ? error.stack : error)));
    process.exitCode = 1;
  },
);
