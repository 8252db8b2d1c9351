/** For how long the original, medik8s' self-node-remediation, waits before it takes a node for rebooted: by its own formula. */

/** Settings of the original, in seconds but for `apiErrors`. */
export interface OriginalSettings {
  /** `maxApiErrorThreshold`: failed checks of the API server in a row before an agent asks its peers. */
  readonly apiErrors: number;
  /** `apiCheckInterval`. */
  readonly apiCheckInterval: number;
  /** `apiServerTimeout`. */
  readonly apiServerTimeout: number;
  /** `peerDialTimeout`. */
  readonly peerDialTimeout: number;
  /** `peerRequestTimeout`. */
  readonly peerRequestTimeout: number;
}

export const originalDefaults: OriginalSettings = {
  apiErrors: 3,
  apiCheckInterval: 15,
  apiServerTimeout: 5,
  peerDialTimeout: 5,
  peerRequestTimeout: 7,
};

const leastPeerSeconds = 30;
const marginSeconds = 30;

/** So many peers are asked at once in the first round, and at least so many in each round after it. */
const leastBatch = 3;

/** Rounds in which the agents ask all workers: a tenth of the others at once after the first round. */
function roundsOf(nodes: number): number {
  const later = Math.max(leastBatch, Math.floor((nodes - leastBatch) / 10));
  return nodes <= leastBatch ? 1 : 1 + Math.ceil((nodes - leastBatch) / later);
}

/**
 * The seconds that the original waits, whether the node is silent or has come back: the time of its agent to miss the API
 * server, of the rounds to its peers, and of its watchdog, and half a minute.
 *
 * @param nodes the workers, with the sick one
 * @param watchdogSeconds the time of the watchdog
 */
export function originalSeconds(
  nodes: number,
  watchdogSeconds: number,
  settings: OriginalSettings = originalDefaults,
): number {
  const { apiErrors, apiCheckInterval, apiServerTimeout, peerDialTimeout, peerRequestTimeout } = settings;
  const peers = Math.max(roundsOf(nodes) * (peerDialTimeout + peerRequestTimeout), leastPeerSeconds);
  return apiErrors * (apiCheckInterval + apiServerTimeout) + peers + watchdogSeconds + marginSeconds;
}
