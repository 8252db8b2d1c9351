/** The commands of `kubectl sluice`, what each of them gets, and the options of all. */
import type { Goal } from "./decide-wait.ts";

export interface ApiServerOptions {
  /** Undefined: the namespace of the kubeconfig's context. */
  readonly namespace: string | undefined;
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
}

/** A command that shows something, and writes nothing. */
export interface ShowArguments extends ApiServerOptions {
  readonly command: "why" | "suspended";
  /** A group, or for `suspended` also a StatefulSet; undefined: all there are. */
  readonly name: string | undefined;
  /** `text`, or one of {@link outputs}. */
  readonly output: string;
  /** All namespaces. */
  readonly isEverywhere: boolean;
}

export interface FencedArguments extends Omit<ShowArguments, "command" | "isEverywhere"> {
  readonly command: "fenced";
  /** A Node; undefined: all there are. */
  readonly name: string | undefined;
  /** Key of the annotation that marks a node. */
  readonly mark: string;
}

export interface WriteOptions extends ApiServerOptions {
  readonly wait: boolean;
  readonly dryRun: boolean;
}

export interface ReleaseArguments extends WriteOptions {
  readonly command: "release";
  readonly group: string;
  readonly pod: string;
}

export interface Recover extends WriteOptions {
  readonly command: "recover";
  /** Volume claims, groups or StatefulSets; of a FoundationDBCluster its process groups. */
  readonly names: readonly string[];
  /** The FoundationDBCluster whose process groups these are; undefined for other names. */
  readonly cluster: string | undefined;
}

export interface FenceArguments extends ApiServerOptions {
  readonly command: "fence";
  readonly node: string;
  /** What the mark says. */
  readonly reason: string;
  /** Key of the annotation that marks a node. */
  readonly mark: string;
  readonly dryRun: boolean;
}

export interface ConfirmArguments extends ApiServerOptions {
  readonly command: "confirm";
  readonly node: string;
  readonly dryRun: boolean;
}

export interface RestartArguments extends ApiServerOptions {
  readonly command: "restart";
  readonly group: string;
  /** Undefined: all pods of the group. */
  readonly pod: string | undefined;
  /** `coordinated`: all processes are down at the same time. `cancel`: restarts are withdrawn. */
  readonly how: "usual" | "coordinated" | "cancel";
  readonly dryRun: boolean;
}

export interface PauseArguments extends ApiServerOptions {
  readonly command: "pause" | "resume";
  readonly group: string;
  /** A StatefulSet; undefined: all of the group. */
  readonly zone: string | undefined;
  readonly dryRun: boolean;
}

export interface WaitArguments extends ApiServerOptions {
  readonly command: "wait";
  readonly group: string;
  readonly goal: Goal;
  readonly timeoutMs: number;
}

export interface DrainArguments extends ApiServerOptions {
  readonly command: "drain";
  readonly node: string;
}

export interface VersionArguments extends ApiServerOptions {
  readonly command: "version";
}

export interface StatusArguments extends ApiServerOptions {
  readonly command: "status";
  /** Undefined: all there are. */
  readonly group: string | undefined;
  /** `text`, or one of {@link outputs}. */
  readonly output: string;
  /** All namespaces. */
  readonly isEverywhere: boolean;
  /** Shows each change until the user ends it. */
  readonly isWatching: boolean;
}

export interface PageArguments extends ApiServerOptions {
  readonly command: "page";
  /** Of this machine; 0: any free one. */
  readonly port: number;
}

export interface CheckArguments extends ApiServerOptions {
  readonly command: "check";
}

export type Command =
  | ShowArguments
  | ReleaseArguments
  | Recover
  | FenceArguments
  | FencedArguments
  | ConfirmArguments
  | RestartArguments
  | PauseArguments
  | WaitArguments
  | DrainArguments
  | VersionArguments
  | StatusArguments
  | PageArguments
  | CheckArguments
  | { readonly command: "help" };

export const commands = [
  "status",
  "page",
  "why",
  "wait",
  "drain",
  "pause",
  "resume",
  "release",
  "suspended",
  "recover",
  "fence",
  "fenced",
  "confirm",
  "restart",
  "check",
  "version",
] as const;

/** The mark of a node for which no reason is given. */
export const usualReason = "kubectl sluice fence";

/** How long `wait` waits, unless the user says otherwise. */
export const usualTimeout = "30m";

/** The word before the name of a FoundationDBCluster and the process groups of it to recover. */
export const processGroups = "process-groups";

/** The port of this machine on which `page` shows the status, unless the user says otherwise. */
export const usualPort = "8002";

export const options = {
  namespace: { type: "string", short: "n" },
  "all-namespaces": { type: "boolean", short: "A" },
  output: { type: "string", short: "o" },
  kubeconfig: { type: "string" },
  context: { type: "string" },
  wait: { type: "boolean" },
  "dry-run": { type: "boolean" },
  reason: { type: "string" },
  mark: { type: "string" },
  yes: { type: "boolean" },
  coordinated: { type: "boolean" },
  cancel: { type: "boolean" },
  for: { type: "string" },
  timeout: { type: "string" },
  watch: { type: "boolean", short: "w" },
  port: { type: "string" },
  help: { type: "boolean", short: "h" },
} as const;

/** The values of `--output`, by command. */
export const outputs: Readonly<Record<string, readonly string[]>> = {
  status: ["json"],
  why: ["json"],
  suspended: ["json", "yaml"],
  fenced: ["json", "yaml"],
};

/** Options that only some commands have. */
export const owners: Readonly<Record<string, readonly string[]>> = {
  "all-namespaces": ["status", "why", "suspended"],
  output: Object.keys(outputs),
  wait: ["release", "recover"],
  "dry-run": ["release", "recover", "fence", "confirm", "restart", "pause", "resume"],
  reason: ["fence"],
  mark: ["fence", "fenced"],
  yes: ["confirm"],
  coordinated: ["restart"],
  cancel: ["restart"],
  for: ["wait"],
  timeout: ["wait"],
  watch: ["status"],
  port: ["page"],
};
