/** How far the clocks of two API servers may differ (rule R10). */
export const clockSkewMs = 30_000;
/**
 * How far a process's own clock, or that of a user who writes a time, may be from the API server's (spec 3.2, step 10). It is
 * wider than {@link clockSkewMs}, because the operators of the API servers do not keep these clocks.
 */
export const wallClockSkewMs = 300_000;
