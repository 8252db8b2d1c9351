import { parseArgs } from "node:util";
import { ensureAssets } from "./assets.ts";
import { type ControlPlane, startControlPlane } from "./controlplane.ts";

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

A pod without spec.nodeName goes to a node that is not cordoned and that its nodeSelector fits. An image with the tag
"broken" never becomes ready. Annotations on a pod: test.sluice.dev/ready-after-ms, test.sluice.dev/gone-after-ms,
test.sluice.dev/waiting-reason.`;

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
function readSettings(args: readonly string[]): { settings: Settings; mistakes: string[] } {
  const mistakes: string[] = [];
  const values = new Map<string, string | true>();
  const { tokens } = parseArgs({ args: [...args], options: FLAGS, strict: false, tokens: true });
  for (const token of tokens) {
    if (token.kind === "positional") mistakes.push(`${token.value}: not a flag; see --help`);
    if (token.kind !== "option") continue;
    const flag = Object.hasOwn(FLAGS, token.name) ? FLAGS[token.name as keyof typeof FLAGS] : undefined;
    if (!flag) mistakes.push(`${token.rawName}: no such flag; see --help`);
    else if (flag.type === "string" && !token.value) mistakes.push(`${token.rawName}: needs a value`);
    else if (flag.type === "boolean" && token.value !== undefined) mistakes.push(`${token.rawName}: takes no value`);
    else values.set(token.name, token.value ?? true);
  }
  const whole = (name: string, otherwise: number, least: number, most: number): number => {
    const text = values.get(name);
    if (typeof text !== "string") return otherwise;
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= least && value <= most) return value;
    mistakes.push(`--${name} ${text}: must be a whole number from ${least} to ${most}`);
    return otherwise;
  };
  const dir = values.get("dir");
  const settings = {
    help: values.has("help"),
    printAssets: values.has("print-assets"),
    directory: typeof dir === "string" ? dir : undefined,
    port: whole("port", 0, 0, 65_535),
    podsReadyAfterMs: whole("pods-ready-after", 1_000, 0, 86_400_000),
    podsGoneAfterMs: whole("pods-gone-after", 0, 0, 86_400_000),
    nodes: whole("nodes", 1, 0, 10_000),
  };
  return { settings, mistakes };
}

const say = (line: string): void => console.error(line);

function introduce(controlPlane: ControlPlane, seconds: string): void {
  console.log(`A Kubernetes control plane is ready at ${controlPlane.url} (after ${seconds} s). Ctrl-C ends it.

  export KUBECONFIG=${controlPlane.kubeconfig}
  alias kubectl=${controlPlane.kubectl}

audit log: ${controlPlane.auditLog}
logs:      ${controlPlane.directory}/logs`);
}

async function serve(settings: Settings): Promise<number> {
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      // The second one does not wait: the leash ends the children.
      if (interrupted.signal.aborted) process.exit(1);
      interrupted.abort(new Error(`${signal}: ending`));
    });
  }
  const assets = await Promise.race([ensureAssets(say), aborted(interrupted.signal)]);
  if (assets === undefined) return 1;
  const startedAt = performance.now();
  const { directory, ...rest } = settings;
  const options = { ...rest, assets, signal: interrupted.signal, log: say };
  const controlPlane = await startControlPlane(directory === undefined ? options : { ...options, directory });
  introduce(controlPlane, ((performance.now() - startedAt) / 1000).toFixed(1));
  const lost = await Promise.race([controlPlane.lost, aborted(interrupted.signal)]);
  say(lost ? lost.explanation : "ending");
  await controlPlane.stop();
  return lost ? 1 : 0;
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}

async function main(): Promise<number> {
  const { settings, mistakes } = readSettings(process.argv.slice(2));
  if (settings.help) {
    console.log(HELP);
    return 0;
  }
  if (mistakes.length > 0) {
    for (const mistake of mistakes) say(mistake);
    return 2;
  }
  if (settings.printAssets) {
    console.log(await ensureAssets(say));
    return 0;
  }
  return serve(settings);
}

try {
  process.exit(await main());
} catch (error) {
  say((error as Error).message);
  process.exit(1);
}
