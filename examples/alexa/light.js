exports.main = ({ on }) => ({ state: on ? 'on' : 'off' });
