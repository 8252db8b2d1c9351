/** The times of the modelled fence, in seconds: small, so that a run is short, and in the proportions that an agent demands. */
const [interval, answer, peerAnswer, fresh] = [3, 1, 1, 12];

/** I, A, X and L of the agents. */
export const seconds = { interval, answer, fresh, permitLife: fresh + 2 * interval + answer + peerAnswer };
export const watchdogSeconds = 6;
export const bootSeconds = 10;
export const stepSeconds = 0.5;
