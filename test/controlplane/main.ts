import { ensureAssets } from "./assets.ts";
import { type ControlPlane, startControlPlane } from "./controlplane.ts";
import { CommandLine } from "./flags.ts";
import { aborted, interruption } from "./interruption.ts";

const HELP = `Starts a Kubernetes control plane on this machine: etcd, kube-apiserver, kube-controller-manager and pods that
become ready. It stays in the foreground; Ctrl-C ends all of it.

  npm run controlplane -- [FLAGS]

  --dir DIR               data, kubeconfig, audit.log and logs; the same folder goes on where it ended
                          (default: a temporary folder, removed at the end)
  --port PORT             of the API server on 127.0.0.1 (default: a free one)
  --pods-ready-after MS   from a pod's creation to its readiness (default: 1000)
  --pods-gone-after MS    from a pod's deletion to its end (default: 0)
  --nodes N               nodes: node-1 and on (default: 1)
  --print-assets          prints the folder with the binaries, builds them if they are missing, and ends
  --help                  this text

The binaries come from $KUBEBUILDER_ASSETS, or are built once, with Go, into $SLUICE_CACHE, $XDG_CACHE_HOME/sluice or
~/.cache/sluice.

A pod without spec.nodeName goes to a node that is not cordoned or tainted, and that its nodeSelector fits. An image
with the tag "broken" never becomes ready. Annotations on a pod: test.sluice.dev/ready-after-ms,
test.sluice.dev/gone-after-ms, test.sluice.dev/waiting-reason. No controller looks after the nodes' health: write it
yourself.`;

const FLAGS = {
  dir: { type: "string" },
  port: { type: "string" },
  "pods-ready-after": { type: "string" },
  "pods-gone-after": { type: "string" },
  nodes: { type: "string" },
  "print-assets": { type: "boolean" },
  help: { type: "boolean" },
} as const;

interface Settings {
  readonly help: boolean;
  readonly printAssets: boolean;
  readonly directory: string | undefined;
  readonly port: number;
  readonly podsReadyAfterMs: number;
  readonly podsGoneAfterMs: number;
  readonly nodes: number;
}

/** Reads the command line; each mistake is a line in `mistakes`. */
function readSettings(args: readonly string[]): { settings: Settings; mistakes: readonly string[] } {
  const line = new CommandLine(args, FLAGS);
  const settings = {
    help: line.has("help"),
    printAssets: line.has("print-assets"),
    directory: line.text("dir"),
    port: line.whole("port", 0, 0, 65_535),
    podsReadyAfterMs: line.whole("pods-ready-after", 1_000, 0, 86_400_000),
    podsGoneAfterMs: line.whole("pods-gone-after", 0, 0, 86_400_000),
    nodes: line.whole("nodes", 1, 0, 10_000),
  };
  return { settings, mistakes: line.mistakes };
}

const report = (line: string): void => console.error(line);

function introduce(controlPlane: ControlPlane, seconds: string): void {
  console.log(`A Kubernetes control plane is ready at ${controlPlane.url} (after ${seconds} s). Ctrl-C ends it.

  export KUBECONFIG=${controlPlane.kubeconfig}
  alias kubectl=${controlPlane.kubectl}

audit log: ${controlPlane.auditLog}
logs:      ${controlPlane.directory}/logs`);
}

async function serve(settings: Settings): Promise<number> {
  const interrupted = interruption();
  const assets = await Promise.race([ensureAssets(report), aborted(interrupted)]);
  if (assets === undefined) return 1;
  const startedAt = performance.now();
  const { directory, ...rest } = settings;
  const options = { ...rest, controllers: "all", assets, signal: interrupted, log: report } as const;
  const controlPlane = await startControlPlane(directory === undefined ? options : { ...options, directory });
  introduce(controlPlane, ((performance.now() - startedAt) / 1000).toFixed(1));
  const lost = await Promise.race([controlPlane.lost, aborted(interrupted)]);
  report(lost ? lost.explanation : "ending");
  await controlPlane.stop();
  return lost ? 1 : 0;
}

async function main(): Promise<number> {
  const { settings, mistakes } = readSettings(process.argv.slice(2));
  if (settings.help) {
    console.log(HELP);
    return 0;
  }
  if (mistakes.length > 0) {
    for (const mistake of mistakes) report(mistake);
    return 2;
  }
  if (settings.printAssets) {
    console.log(await ensureAssets(report));
    return 0;
  }
  return serve(settings);
}

try {
  process.exit(await main());
} catch (error) {
  report((error as Error).message);
  process.exit(1);
}
