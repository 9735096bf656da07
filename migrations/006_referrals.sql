-- Who brought whom: the referrer is credited once, when the referee's first job is charged.
CREATE TABLE referrals (
    referee     onejob_name     PRIMARY KEY CHECK (octet_length(referee) <= 200),
    referrer    onejob_name     NOT NULL CHECK (octet_length(referrer) <= 200),
    amount      onejob_amount   NOT NULL CHECK (amount > 0), -- of the credit
    currency    onejob_currency NOT NULL CHECK (currency <> 'XXX'),
    recorded_by onejob_name     NOT NULL,
    created_at  timestamptz     NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT referrals_of_another CHECK (referrer <> referee)
);
CREATE TRIGGER referrals_append_only BEFORE UPDATE OR DELETE ON referrals FOR EACH ROW EXECUTE FUNCTION onejob_append_only();
CREATE TRIGGER referrals_never_truncated BEFORE TRUNCATE ON referrals FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();

---- create above / drop below ----

DROP TABLE referrals;
