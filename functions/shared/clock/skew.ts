/** How far the clocks of two API servers may differ (rule R10). */
export const clockSkewMs = 30_000;
