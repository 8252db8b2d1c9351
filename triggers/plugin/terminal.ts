/** What a command line of `kubectl sluice` is given: streams, a way to the API server, and codes to end with. */
import type { KubernetesCluster } from "../../functions/shared/kubernetes/client.ts";
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import type { ApiServerOptions } from "./commands.ts";
import type { PortForward } from "./port-forward.ts";
import type { Emphasis } from "./text.ts";

/** A cluster that was found, and that knows its namespace. */
export interface ApiConnection extends Pick<KubernetesCluster, "askEviction" | "ready"> {
  readonly cluster: Cluster;
  readonly namespace: string;
  close(): Promise<void>;
}

/** The connection of a command to a cluster. */
export function connectionTo(cluster: KubernetesCluster, namespace: string): ApiConnection {
  const askEviction: ApiConnection["askEviction"] = (pod, uid) => cluster.askEviction(pod, uid);
  return { cluster, namespace, askEviction, ready: () => cluster.ready(), close: () => cluster.close() };
}

export interface Terminal {
  /** Throws what is wrong with the kubeconfig. */
  connect(place: Omit<ApiServerOptions, "namespace">): Promise<ApiConnection>;
  out(text: string): void;
  /** A line for people, beside the output. */
  err(line: string): void;
  readonly emphasize: Emphasis;
  /** The size of the screen now; undefined where standard output is no screen. Absent: it never is one. */
  screen?(): Screen | undefined;
  /** Aborted by Ctrl-C, which from this call on does nothing else. Absent: the user cannot end the command. */
  interrupted?(): AbortSignal;
  /** Starts `kubectl` with these arguments, which are those of `port-forward`. */
  forward?(args: readonly string[]): PortForward;
}

export interface Screen {
  readonly columns: number;
  readonly rows: number;
}

/**
 * 0: said or done. 1: refused, not found, not in time, no rights, no API server. 2: wrong command line or kubeconfig. 3: for
 * `wait`, a person is needed; for `drain`, some pods wait.
 */
export type ExitCode = 0 | 1 | 2 | 3;
