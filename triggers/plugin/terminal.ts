/** What a command line of `kubectl sluice` is given: streams, a way to the API server, and codes to end with. */
import type { Cluster } from "../../functions/shared/kubernetes/cluster.ts";
import type { ApiServerOptions } from "./arguments.ts";
import type { Emphasis } from "./text.ts";

/** A cluster that was found, and that knows its namespace. */
export interface ApiConnection {
  readonly cluster: Cluster;
  readonly namespace: string;
  close(): Promise<void>;
}

export interface Terminal {
  /** Throws what is wrong with the kubeconfig. */
  connect(place: Omit<ApiServerOptions, "namespace">): Promise<ApiConnection>;
  out(text: string): void;
  /** A line for people, beside the output. */
  err(line: string): void;
  readonly emphasize: Emphasis;
}

/**
 * 0: said or done. 1: refused, not found, not in time, no rights, no API server. 2: wrong command line or kubeconfig. 3: for
 * `wait`, a person is needed.
 */
export type ExitCode = 0 | 1 | 2 | 3;
