package postgres

// ByClaim is how claims are looked up.
const ByClaim = byClaim
